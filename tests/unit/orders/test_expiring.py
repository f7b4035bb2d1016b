"""Attempts of orders that are over: asked many at a time, and none waits for the slowest."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

import pytest

from orders import expiring
from orders.payments.provider import Answer, ProviderDown
from seckill.streams.sweeping import Sweep, Sweeps

PROVIDERS_ROOM = 64


def test_dozens_are_asked_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes only when all of them have been asked: with fewer at a time none would ever come."""
    together = threading.Barrier(PROVIDERS_ROOM)

    def void(payment_id: UUID) -> Answer:
        together.wait(30)
        return Answer("voided", "")

    monkeypatch.setattr("orders.payments.provider.void", void)
    attempts = [(uuid4(), uuid4()) for _ in range(PROVIDERS_ROOM)]
    answers = list(expiring._void(attempts))
    assert {(order_id, payment_id) for order_id, payment_id, _ in answers} == set(attempts)
    assert all(answer is not None and answer.state == "voided" for _, _, answer in answers)


def test_an_answer_is_used_before_the_slowest_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, used = uuid4(), threading.Event()

    def void(payment_id: UUID) -> Answer:
        if payment_id == slow:
            assert used.wait(30), "the others were kept waiting for it"
            raise ProviderDown("too late")
        return Answer("voided", "")

    monkeypatch.setattr("orders.payments.provider.void", void)
    answers = []
    for _, payment_id, answer in expiring._void([(uuid4(), slow), (uuid4(), uuid4())]):
        answers.append((payment_id, answer))
        used.set()
    assert [answer for payment_id, answer in answers if payment_id == slow] == [None]
    assert answers[-1][0] == slow


def test_a_duty_that_waits_for_the_provider_holds_up_no_other_duty() -> None:
    expired, asked = threading.Event(), threading.Event()

    def refunds() -> bool:
        asked.set()
        assert expired.wait(30), "expiry waits for refunds"
        return False

    def expiry() -> bool:
        if asked.is_set():
            expired.set()
        return False

    sweeps = Sweeps(Sweep("expiry", 0.01, expiry), Sweep("refunds", 0.01, refunds))
    thread = threading.Thread(target=sweeps.run)
    thread.start()
    assert expired.wait(30)
    sweeps.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_a_duty_that_fails_for_good_ends_all_of_them() -> None:
    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Sweeps(Sweep("well", 60.0, lambda: False), Sweep("ill", 60.0, broken)).run()
