"""A circuit breaker per channel, stored in a row that all workers share, so only one of them probes a failing sink.

Closed: all workers call the sink. After some failures in a row it opens for a while, then becomes half-open: the worker
that updates the row gets the probe. The probe's result closes the breaker, or opens it again for longer. Each step is
one conditional UPDATE in its own transaction, so workers never wait for another worker's call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from django.db import connection

from seckill.resilience.circuit_breaker import BreakerState

FAILURES_MAX = 4
OPEN_SECONDS_MIN = 2.0
OPEN_SECONDS_MAX = 15.0
PROBE_SECONDS_MAX = 5.0
"""Longer than a sink call may take. If the probing worker dies, another worker probes after this time."""


class CallPermit(Enum):
    """Whether a worker may call the sink."""

    DENIED = "denied"
    ALLOWED = "allowed"
    PROBE = "probe"


class BreakerStatus(NamedTuple):
    state: BreakerState
    failures: int


_READ_STATUS = "SELECT open_until IS NULL, open_until > now(), failures FROM notifications_channel WHERE name = %s"
_TAKE_PROBE = """
UPDATE notifications_channel SET open_until = now() + make_interval(secs => %s)
WHERE name = %s AND open_until <= now()
"""
_RETURN_PROBE = "UPDATE notifications_channel SET open_until = now() WHERE name = %s AND open_until IS NOT NULL"
_RECORD_SUCCESS = """
UPDATE notifications_channel SET failures = 0, open_until = NULL
WHERE name = %s AND (failures > 0 OR open_until IS NOT NULL)
"""
_RECORD_FAILURE = """
INSERT INTO notifications_channel AS mine (name, failures, open_until) VALUES (%s, 1, NULL)
ON CONFLICT (name) DO UPDATE SET
    failures = mine.failures + 1,
    open_until = CASE WHEN mine.failures + 1 >= %s THEN
        now() + make_interval(secs => least(%s, %s * power(2, least(mine.failures + 1 - %s, 10)))) END
"""


def request_permit(channel: str) -> CallPermit:
    status = read_status(channel)
    if status.state is BreakerState.CLOSED:
        return CallPermit.ALLOWED
    if status.state is BreakerState.OPEN:
        return CallPermit.DENIED
    return CallPermit.PROBE if _execute(_TAKE_PROBE, [PROBE_SECONDS_MAX, channel]) == 1 else CallPermit.DENIED


def return_probe(channel: str) -> None:
    """The worker had nothing to send, so the next worker may probe at once."""
    _execute(_RETURN_PROBE, [channel])


def record_success(channel: str) -> None:
    _execute(_RECORD_SUCCESS, [channel])


def record_failure(channel: str) -> None:
    _execute(_RECORD_FAILURE, [channel, FAILURES_MAX, OPEN_SECONDS_MAX, OPEN_SECONDS_MIN, FAILURES_MAX])


def read_status(channel: str) -> BreakerStatus:
    with connection.cursor() as cursor:
        cursor.execute(_READ_STATUS, [channel])
        row = cursor.fetchone()
    if row is None:
        return BreakerStatus(BreakerState.CLOSED, 0)
    is_closed, is_open, failures = row
    state = BreakerState.CLOSED if is_closed else BreakerState.OPEN if is_open else BreakerState.HALF_OPEN
    return BreakerStatus(state, failures)


def _execute(statement: str, parameters: Sequence[str | float]) -> int:
    """How many rows were changed."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)
