"""The breakers before the queue: one partition's fault is not the broker's."""

from __future__ import annotations

from gateway.breakers import Breakers
from seckill.breaker import Permit

BAD, GOOD = ("purchase.requests", 3), ("purchase.requests", 7)


def breakers() -> Breakers:
    return Breakers(open_s=1, try_s=3, silence_s=2.7)


def test_a_partition_that_fails_while_others_acknowledge_stops_its_own_users_only() -> None:
    them = breakers()
    them.acknowledged(GOOD, 10.0)
    them.failed([BAD], 10.1)
    assert them.permit(BAD, 10.2) is Permit.NO
    assert them.permit(GOOD, 10.2) is Permit.YES
    assert them.permit(None, 10.2) is Permit.YES
    assert [them.permit(BAD, 11.2) for _ in range(2)] == [Permit.PROBE, Permit.NO]
    them.acknowledged(BAD, 11.3)
    assert them.permit(BAD, 11.3) is Permit.YES


def test_a_failure_while_nothing_is_acknowledged_stops_everybody() -> None:
    them = breakers()
    them.acknowledged(GOOD, 10.0)
    them.failed([BAD], 13.0)
    assert them.permit(GOOD, 13.1) is Permit.NO
    assert them.permit(GOOD, 14.1) is Permit.PROBE
    them.give_back(GOOD, 14.1)
    assert them.permit(GOOD, 14.1) is Permit.PROBE


def test_a_probe_refused_by_the_second_breaker_is_not_spent_at_the_first() -> None:
    them = breakers()
    them.failed([BAD], 10.0)
    assert them.permit(BAD, 11.1) is Permit.PROBE, "of both"
    them.of_all.give_back(11.1)
    assert them.permit(BAD, 11.2) is Permit.NO, "that of the partition is under way"
    assert them.permit(GOOD, 11.2) is Permit.PROBE
