"""Refusals over HTTP: problem details (RFC 9457), the same for all services."""

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


PROBLEM_CONTENT_TYPE = "application/problem+json"
DJANGO_ERRORS = {
    400: ("bad-request", "The request is malformed."),
    404: ("no-such-address", "This address does not exist."),
    405: ("wrong-method", "This address does not support this method."),
    500: ("internal", "Internal error."),
}


class Problem(Exception):
    """A refused request and the reason. Raised anywhere below a view and answered at the view's edge."""

    def __init__(
        self, status: int, kind: str, detail: str, *, retry_after_s: float | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.retry_after_s, self.extra = (
            status, kind, detail, retry_after_s, extra,
        )  # fmt: skip


def problem_body(problem: Problem) -> dict[str, Any]:
    return {
        "type": f"/problems/{problem.kind}",
        "title": problem.kind.replace("-", " "),
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }


def problem_response(problem: Problem) -> HttpResponse:
    body = json.dumps(problem_body(problem))
    response = HttpResponse(body, status=problem.status, content_type=PROBLEM_CONTENT_TYPE)
    response["Content-Length"] = str(len(response.content))
    set_retry_after(response, problem.retry_after_s)
    return response


def set_retry_after(response: HttpResponse, seconds: float | None) -> None:
    """In whole seconds, and never 0, because clients take 0 for "at once"."""
    if seconds is not None:
        response["Retry-After"] = str(max(1, round(seconds)))


def api_errors_as_problems(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: under /api, Django's own refusals (unknown address, wrong method, bad host) become problems too."""

    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        status = response.status_code
        if (
            status < 400
            or response["Content-Type"] == PROBLEM_CONTENT_TYPE
            or not request.path_info.startswith("/api/")
        ):
            return response
        kind, detail = DJANGO_ERRORS.get(status, DJANGO_ERRORS[500 if status >= 500 else 400])
        converted = problem_response(Problem(status, kind, detail))
        if "Allow" in response:
            converted["Allow"] = response["Allow"]
        return converted

    return respond


def problem_responses(view: View) -> View:
    """The edge of an API view: problems become responses, and an unavailable database is a 503.

    It also exempts the view from the CSRF check. The API identifies a user by a token that no browser sends by itself,
    so a forged form cannot act for a signed-in buyer.
    """

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Problem as problem:
            return problem_response(problem)
        except DatabaseError as fault:
            log.warning("database unavailable", extra={"path": request.path, "reason": str(fault)})
            return problem_response(Problem(503, "database-unavailable", "Try again in a moment.", retry_after_s=2))

    wrapped.csrf_exempt = True  # type: ignore[attr-defined]  # what Django's `csrf_exempt` does
    return cast(View, wrapped)
