"""The circuit breaker, with times given by the test."""

from __future__ import annotations

from seckill.resilience.circuit_breaker import BreakerState, CircuitBreaker, Permit


def open_breaker() -> CircuitBreaker:
    breaker = CircuitBreaker(failures_max=3, open_seconds=10)
    for now in (0, 1, 2):
        assert breaker.allows_call(now)
        breaker.record_failure(now)
    return breaker


def test_it_opens_only_after_enough_failures_in_a_row() -> None:
    breaker = CircuitBreaker(failures_max=3, open_seconds=10)
    for _ in range(5):
        breaker.record_failure(0)
        breaker.record_failure(0)
        breaker.record_success()
    assert breaker.allows_call(0)
    assert not open_breaker().allows_call(2)


def test_half_open_allows_one_call() -> None:
    breaker = open_breaker()
    assert breaker.state(11.9) is BreakerState.OPEN
    assert breaker.state(12) is BreakerState.HALF_OPEN
    assert [breaker.allows_call(12), breaker.allows_call(12), breaker.allows_call(13)] == [True, False, False]


def test_a_successful_probe_closes_it_and_a_failed_one_opens_it_again() -> None:
    closing, reopening = open_breaker(), open_breaker()
    assert closing.allows_call(12) and reopening.allows_call(12)
    closing.record_success()
    reopening.record_failure(13)
    assert closing.state(13) is BreakerState.CLOSED
    assert not reopening.allows_call(22)
    assert reopening.allows_call(23)


def test_a_probe_without_a_result_does_not_block_later_probes() -> None:
    breaker = open_breaker()
    assert breaker.allows_call(12)
    assert breaker.allows_call(22)


def test_a_probe_may_have_longer_than_the_open_time() -> None:
    breaker = CircuitBreaker(failures_max=1, open_seconds=1, probe_seconds=3)
    breaker.record_failure(10)
    assert not breaker.allows_call(10.5)
    assert [breaker.allows_call(11) for _ in range(3)] == [True, False, False]
    assert not breaker.allows_call(13.9), "the probe has no result yet"
    assert breaker.allows_call(14), "the probe never reported, so another call may probe"


def test_a_returned_probe_goes_to_the_next_caller() -> None:
    breaker = open_breaker()
    assert breaker.permit(11.9) is Permit.NO
    for _ in range(20):  # calls that are refused for another reason
        assert breaker.permit(12) is Permit.PROBE
        breaker.return_probe(12)
    assert breaker.permit(12) is Permit.PROBE
    assert breaker.permit(12) is Permit.NO


def test_a_probe_returned_after_its_result_changes_nothing() -> None:
    closing, reopening = open_breaker(), open_breaker()
    assert closing.allows_call(12) and reopening.allows_call(12)
    closing.record_success()
    closing.return_probe(12)
    reopening.record_failure(12)
    reopening.return_probe(12)
    assert closing.permit(12) is Permit.YES
    assert reopening.permit(12) is Permit.NO
