"""The queue's circuit breakers: a failing partition does not stop the others."""

from __future__ import annotations

from gateway.breakers import QueueBreakers
from seckill.resilience.circuit_breaker import Permit

BAD, GOOD = ("purchase.requests", 3), ("purchase.requests", 7)


def breakers() -> QueueBreakers:
    return QueueBreakers(open_s=1, try_s=3, silence_s=2.7)


def test_a_failing_partition_stops_only_its_own_users() -> None:
    them = breakers()
    them.record_acknowledged(GOOD, 10.0)
    them.record_failed([BAD], 10.1)
    assert them.permit(BAD, 10.2) is Permit.NO
    assert them.permit(GOOD, 10.2) is Permit.YES
    assert them.permit(None, 10.2) is Permit.YES
    assert [them.permit(BAD, 11.2) for _ in range(2)] == [Permit.PROBE, Permit.NO]
    them.record_acknowledged(BAD, 11.3)
    assert them.permit(BAD, 11.3) is Permit.YES


def test_a_failure_while_no_partition_acknowledges_stops_all_users() -> None:
    them = breakers()
    them.record_acknowledged(GOOD, 10.0)
    them.record_failed([BAD], 13.0)
    assert them.permit(GOOD, 13.1) is Permit.NO
    assert them.permit(GOOD, 14.1) is Permit.PROBE
    them.give_back(GOOD, 14.1)
    assert them.permit(GOOD, 14.1) is Permit.PROBE


def test_a_probe_that_one_breaker_refuses_is_returned_to_the_other() -> None:
    them = breakers()
    them.record_failed([BAD], 10.0)
    assert them.permit(BAD, 11.1) is Permit.PROBE, "the probe of both breakers"
    them.of_broker.return_probe(11.1)
    assert them.permit(BAD, 11.2) is Permit.NO, "the probe of the partition is still under way"
    assert them.permit(GOOD, 11.2) is Permit.PROBE
