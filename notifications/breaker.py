"""A breaker for each channel, in a row that all workers share: a sink that is down is asked by one, now and then.

Closed: everybody tries. After some failures in a row it is open for a while, then half-open: whoever changes the row
tries for all; what comes of it closes or opens it again, each time for longer. Every step is a conditional UPDATE, in
a transaction of its own: nobody waits for another's call.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from django.db import connection

from seckill.breaker import State

MOST_FAILURES = 4
FIRST_OPEN_S = 2.0
LONGEST_OPEN_S = 15.0
PROBE_S = 5.0
"""Longer than a call of a sink may take; if its worker dies, another one tries after that."""


class Leave(Enum):
    """What a worker may do."""

    NO = "leave it"
    YES = "try"
    PROBE = "try, for all"


class Standing(NamedTuple):
    state: State
    failures: int


_STANDING = "SELECT open_until IS NULL, open_until > now(), failures FROM notifications_channel WHERE name = %s"
_PROBE = """
UPDATE notifications_channel SET open_until = now() + make_interval(secs => %s)
WHERE name = %s AND open_until <= now()
"""
_PUT_BACK = "UPDATE notifications_channel SET open_until = now() WHERE name = %s AND open_until IS NOT NULL"
_SUCCEEDED = """
UPDATE notifications_channel SET failures = 0, open_until = NULL
WHERE name = %s AND (failures > 0 OR open_until IS NOT NULL)
"""
_FAILED = """
INSERT INTO notifications_channel AS mine (name, failures, open_until) VALUES (%s, 1, NULL)
ON CONFLICT (name) DO UPDATE SET
    failures = mine.failures + 1,
    open_until = CASE WHEN mine.failures + 1 >= %s THEN
        now() + make_interval(secs => least(%s, %s * power(2, least(mine.failures + 1 - %s, 10)))) END
"""


def ask(channel: str) -> Leave:
    standing = look(channel)
    if standing.state is State.CLOSED:
        return Leave.YES
    if standing.state is State.OPEN:
        return Leave.NO
    return Leave.PROBE if _run(_PROBE, [PROBE_S, channel]) == 1 else Leave.NO


def put_back(channel: str) -> None:
    """The probe was not needed: there was nothing to tell."""
    _run(_PUT_BACK, [channel])


def succeeded(channel: str) -> None:
    _run(_SUCCEEDED, [channel])


def failed(channel: str) -> None:
    _run(_FAILED, [channel, MOST_FAILURES, LONGEST_OPEN_S, FIRST_OPEN_S, MOST_FAILURES])


def look(channel: str) -> Standing:
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, [channel])
        row = cursor.fetchone()
    if row is None:
        return Standing(State.CLOSED, 0)
    is_closed, is_open, failures = row
    return Standing(State.CLOSED if is_closed else State.OPEN if is_open else State.HALF_OPEN, failures)


def _run(statement: str, parameters: Sequence[str | float]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)
