"""Refusals over HTTP: problem details (RFC 9457), one way for all services."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse

log = logging.getLogger(__name__)

View = TypeVar("View", bound=Callable[..., HttpResponse])


PROBLEM = "application/problem+json"
OF_DJANGO = {
    400: ("bad-request", "The request makes no sense."),
    404: ("no-such-address", "Nothing is here."),
    405: ("wrong-method", "This address does not know this method."),
    500: ("internal", "Something is broken here."),
}


class Problem(Exception):
    """A request that is not granted, and why; raised anywhere below a view, answered at its edge."""

    def __init__(
        self, status: int, kind: str, detail: str, *, retry_after_s: float | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.retry_after_s, self.extra = (
            status, kind, detail, retry_after_s, extra,
        )  # fmt: skip


def content(problem: Problem) -> dict[str, Any]:
    return {
        "type": f"/problems/{problem.kind}",
        "title": problem.kind.replace("-", " "),
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }


def answer(problem: Problem) -> HttpResponse:
    response = HttpResponse(json.dumps(content(problem)), status=problem.status, content_type=PROBLEM)
    response["Content-Length"] = str(len(response.content))
    if problem.retry_after_s is not None:
        response["Retry-After"] = str(max(1, round(problem.retry_after_s)))
    return response


def every_error(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: under /api what Django itself refuses (no such address, wrong method, bad host) is a problem, too."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        status = response.status_code
        if status < 400 or response["Content-Type"] == PROBLEM or not request.path_info.startswith("/api/"):
            return response
        kind, detail = OF_DJANGO.get(status, OF_DJANGO[500] if status >= 500 else OF_DJANGO[400])
        made = answer(Problem(status, kind, detail))
        if "Allow" in response:
            made["Allow"] = response["Allow"]
        return made

    return respond


def answers_problems(view: View) -> View:
    """The edge of a view: problems become answers; a database that is away is a 503, not a crash."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Problem as problem:
            return answer(problem)
        except DatabaseError as fault:
            log.warning("database away", extra={"path": request.path, "reason": str(fault)})
            return answer(Problem(503, "database-unavailable", "Try again in a moment.", retry_after_s=2))

    return cast(View, wrapped)
