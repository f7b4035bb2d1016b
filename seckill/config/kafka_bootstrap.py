"""Shell: why a Kafka client could not connect. kafka-python 3.0.12 tries until its time is over and names no reason.

A wrong password or an unknown authority therefore looked like a cluster that does not run. The reason is in warnings
that it logs. Check this against a newer version before updating.
"""

from __future__ import annotations

import logging

LOGGER = "kafka.net.manager"


class _LastFailure(logging.Handler):
    reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        faults = [each for each in record.args or () if isinstance(each, Exception)]
        if faults and record.levelno == logging.WARNING:  # an error only says that the time is over
            self.reason = str(faults[-1]) or type(faults[-1]).__name__


_last = _LastFailure(logging.WARNING)


def watch_bootstrap() -> None:
    """From now on remember why connections fail. Idempotent."""
    logging.getLogger(LOGGER).addHandler(_last)
    _last.reason = ""


def bootstrap_failure() -> str:
    """Why the last attempt since then failed; empty if none did."""
    return _last.reason
