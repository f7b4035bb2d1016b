"""Lab 7: .venv/bin/pytest docs/labs/exercises/test_lab07.py"""

from __future__ import annotations

import pytest

from docs.labs.exercises import lab07_double_click as lab


def test_1_an_id_follows_from_the_whole_call_and_the_secret() -> None:
    calls = [("ann", 1, "k"), ("ann", 2, "k"), ("bob", 1, "k"), ("ann", 1, "l"), ("ab", 1, "c"), ("a", 1, "bc"),
             ("a:b", 1, "c"), ("a", 1, "b:c"), ("1:a", 1, "k"), ("a", 11, "k")]  # fmt: skip
    ids = [lab.request_id(b"secret", *call) for call in calls]
    assert ids == [lab.request_id(b"secret", *call) for call in calls]
    assert len(set(ids)) == len(calls)
    assert not set(ids) & {lab.request_id(b"another", *call) for call in calls}


def test_2_a_repeated_call_gets_its_answer_and_another_body_is_a_conflict() -> None:
    answers, handled = lab.Answers(), []

    def handle(body: str) -> str:
        handled.append(body)
        if len(handled) == 1:
            raise ConnectionError("the queue is away")
        return f"accepted {len(handled)}"

    with pytest.raises(ConnectionError):
        lab.answer(answers, "key", "one phone", handle)
    assert {lab.answer(answers, "key", "one phone", handle) for _ in range(3)} == {"accepted 2"}
    with pytest.raises(lab.Conflict):
        lab.answer(answers, "key", "two phones", handle)
    assert lab.answer(answers, "other", "two phones", handle) == "accepted 3"


def test_3_retries_share_a_key_and_wishes_do_not() -> None:
    keys: list[str] = []

    def send(key: str) -> str | None:
        keys.append(key)
        return "accepted" if len(keys) in (3, 4) else None

    buyer = lab.Buyer(send)
    assert [lab.buy(buyer, 5), lab.buy(buyer, 5), lab.buy(buyer, 2)] == ["accepted", "accepted", None]
    assert len(keys) == 6
    assert [len(set(keys[a:b])) for a, b in ((0, 3), (3, 4), (4, 6))] == [1, 1, 1]
    assert len(set(keys)) == 3
