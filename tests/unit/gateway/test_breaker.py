"""The breaker: after a failure one tries, the others go away at once."""

from __future__ import annotations

from gateway.breaker import Breaker


def test_closed_it_admits_everybody() -> None:
    breaker = Breaker(rest_s=1, try_s=3)
    assert all(breaker.admits(0.0) for _ in range(10))


def test_after_a_failure_nobody_then_one_for_all() -> None:
    breaker = Breaker(rest_s=1, try_s=3)
    breaker.trip(10.0)
    assert not breaker.admits(10.5)
    assert [breaker.admits(11.0) for _ in range(3)] == [True, False, False]
    assert not breaker.admits(13.9), "he is still trying"
    assert breaker.admits(14.0), "he has not come back: another one"


def test_one_success_closes_it() -> None:
    breaker = Breaker(rest_s=1, try_s=3)
    breaker.trip(10.0)
    breaker.close()
    assert breaker.admits(10.0)
