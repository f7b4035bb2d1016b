"""Lab 4: .venv/bin/pytest docs/labs/exercises/test_lab04.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab04_save_then_send as lab


class Crash(Exception):
    """kill -9, as far as a test can show it."""


@pytest.mark.parametrize("moment", ["order", "message"])
def test_1_a_crash_leaves_order_and_message_or_neither(moment: str) -> None:
    def crash(now: str) -> None:
        if now == moment:
            raise Crash

    database = lab.Database()
    with pytest.raises(Crash):
        lab.place_order(database, "1", crash)
    assert (database.orders, database.outbox) == ([], [])
    lab.place_order(database, "2", lambda now: None)
    assert (database.orders, database.outbox) == (["2"], ["placed 2"])


def test_2_the_relay_loses_nothing_and_keeps_the_order() -> None:
    database, topic, failures = lab.Database(), [], [1, 3]
    database.outbox = ["a", "b", "c"]

    def send(message: str) -> None:
        topic.append(message)
        if len(topic) in failures:
            raise ConnectionError("no acknowledgement")

    while database.outbox:
        try:
            lab.relay_all(database, send)
        except ConnectionError:
            continue
    assert topic == ["a", "a", "b", "b", "c"]


def test_3_a_receiver_applies_each_event_once_even_if_it_failed_before() -> None:
    seen: set[str] = set()
    effects: list[str] = []

    def fail() -> None:
        raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError):
        lab.receive(seen, "e1", fail)
    assert [lab.receive(seen, "e1", lambda: effects.append("e1")) for _ in range(3)] == [True, False, False]
    assert effects == ["e1"]
