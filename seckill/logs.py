"""Shell: one line a log event: time, level, event, then its fields as key=value."""

from __future__ import annotations

from mqcore.logs import to_stderr as _to_stderr


def to_stderr(level: str = "info") -> None:
    """The same form as the broker's, so that the logs of a stack read alike."""
    _to_stderr(level)
    import logging

    logging.getLogger("kafka").setLevel(logging.WARNING)
