"""Shell: why a Kafka client could not connect. kafka-python 3.0.12 tries until its time is over and names no reason.

A wrong password or an unknown authority therefore looked like a cluster that does not run. The reason is in warnings
that it logs. Check this against a newer version before updating.
"""

from __future__ import annotations

import logging

LOGGER = "kafka.net.manager"
REASONS_MAX = 3


class _Reasons(logging.Handler):
    """Each one once and the oldest first, because the attempt during which the time ends only times out."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        faults = [each for each in record.args or () if isinstance(each, Exception)]
        if faults and record.levelno == logging.WARNING:  # an error only says that the time is over
            reason = str(faults[-1]) or type(faults[-1]).__name__
            if reason not in self.found and len(self.found) < REASONS_MAX:
                self.found.append(reason)


_reasons = _Reasons()


def watch_bootstrap() -> None:
    """From now on remember why connections fail. Idempotent."""
    logging.getLogger(LOGGER).addHandler(_reasons)
    _reasons.found.clear()


def bootstrap_failure() -> str:
    """Why attempts since then failed; empty if none did."""
    return "; ".join(_reasons.found)
