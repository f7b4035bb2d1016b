"""Shell: one line per log event: time, level, event, then its fields as `key=value`.

The broker writes the same form, so the logs of a whole stack can be merged and read together.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

log = logging.getLogger(__name__)

_STANDARD_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """Every attribute that `extra=` adds to a record becomes a field of the line."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: str(value) for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}
        words = [f"{self.formatTime(record)} {record.levelname:<7} {record.getMessage()}"]
        words += [f"{name}={_quote_if_needed(text)}" for name, text in fields.items()]
        if record.exc_info:
            words.append(f"trace={json.dumps(self.formatException(record.exc_info))}")
        return " ".join(words)


def configure(level: str = "info") -> None:
    """Send all logs of this process to stderr, replacing any earlier configuration."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("kafka").setLevel(logging.WARNING)


def configure_web_server() -> None:
    """Log unexpected exceptions in requests, with their tracebacks, and nothing else of a request.

    Django's own lines are about refusals. A refusal is an ordinary response, and a rush produces thousands of them.
    """
    from django.core.signals import got_request_exception

    configure("warning")
    logging.getLogger("django").setLevel(logging.CRITICAL)
    got_request_exception.connect(_log_request_failure, dispatch_uid="seckill.monitoring.logs")


def _log_request_failure(sender: object, request: Any = None, **_: object) -> None:
    """Called by Django while it handles the exception, so `exc_info` finds it."""
    fields = {} if request is None else {"method": request.method, "path": request.path}
    log.error("request failed", exc_info=True, extra=fields)


def _quote_if_needed(text: str) -> str:
    return text if text.isprintable() and " " not in text else json.dumps(text)
