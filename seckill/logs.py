"""Shell: one line a log event: time, level, event, then its fields as key=value."""

from __future__ import annotations

import logging
from typing import Any

from mqcore.logs import to_stderr as _to_stderr

log = logging.getLogger(__name__)


def to_stderr(level: str = "info") -> None:
    """The same form as the broker's, so that the logs of a stack read alike."""
    _to_stderr(level)
    logging.getLogger("kafka").setLevel(logging.WARNING)


def of_a_web_server() -> None:
    """What nobody foresaw in a request, with its traceback. Django's own lines are about refusals, each of which is an
    answer, and in a rush there are thousands."""
    from django.core.signals import got_request_exception

    to_stderr("warning")
    logging.getLogger("django").setLevel(logging.CRITICAL)
    got_request_exception.connect(_broken, dispatch_uid="seckill.logs")


def _broken(sender: object, request: Any = None, **_: object) -> None:
    """While the exception is being handled."""
    about = {} if request is None else {"method": request.method, "path": request.path}
    log.error("a request is broken", exc_info=True, extra=about)
