"""Open attempts of due orders are voided in parallel, so that one slow call delays no other order."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

import pytest

from orders import expiry
from orders.payments.provider import ProviderDown, ProviderPayment
from seckill.messaging.sweep_loop import Sweep, Sweeps

PARALLEL_CALLS = 64


def test_attempts_are_voided_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call returns only after all have started, so with fewer threads none would return."""
    together = threading.Barrier(PARALLEL_CALLS)

    def void(payment_id: UUID) -> ProviderPayment:
        together.wait(30)
        return ProviderPayment("voided", "")

    monkeypatch.setattr("orders.payments.provider.void_payment", void)
    attempts = [(uuid4(), uuid4()) for _ in range(PARALLEL_CALLS)]
    answers = list(expiry._void_attempts(attempts))
    assert {(order_id, payment_id) for order_id, payment_id, _ in answers} == set(attempts)
    assert all(answer is not None and answer.state == "voided" for _, _, answer in answers)


def test_an_answer_is_used_before_the_slowest_one_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, used = uuid4(), threading.Event()

    def void(payment_id: UUID) -> ProviderPayment:
        if payment_id == slow:
            assert used.wait(30), "the fast answers were held back"
            raise ProviderDown("too late")
        return ProviderPayment("voided", "")

    monkeypatch.setattr("orders.payments.provider.void_payment", void)
    answers = []
    for _, payment_id, answer in expiry._void_attempts([(uuid4(), slow), (uuid4(), uuid4())]):
        answers.append((payment_id, answer))
        used.set()
    assert [answer for payment_id, answer in answers if payment_id == slow] == [None]
    assert answers[-1][0] == slow


def test_a_sweep_that_waits_for_the_provider_does_not_delay_another() -> None:
    expired, asked = threading.Event(), threading.Event()

    def slow_sweep() -> bool:
        asked.set()
        assert expired.wait(30), "the sweep of expiry waits for that of refunds"
        return False

    def fast_sweep() -> bool:
        if asked.is_set():
            expired.set()
        return False

    sweeps = Sweeps(Sweep("expiry", 0.01, fast_sweep), Sweep("refunds", 0.01, slow_sweep))
    thread = threading.Thread(target=sweeps.run)
    thread.start()
    assert expired.wait(30)
    sweeps.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_a_sweep_that_fails_stops_all_sweeps_of_the_process() -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Sweeps(Sweep("healthy", 60.0, lambda: False), Sweep("broken", 60.0, broken)).run()
