"""Shell: one line per log event: time, level, event, then its fields as key=value."""

from __future__ import annotations

import json
import logging
import sys

_STANDARD_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class OneLineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD_ATTRIBUTES}
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line = f"{stamp}.{int(record.msecs):03d} {record.levelname:<7} {record.getMessage()}"
        for name, value in fields.items():
            text = str(value)
            line += f" {name}={text if text.isprintable() and ' ' not in text else json.dumps(text)}"
        if record.exc_info:
            line += " trace=" + json.dumps(self.formatException(record.exc_info))
        return line


def log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
