"""Rounds: what is asked at the same time is worked on together; everybody gets his own answer, or the fault."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from gateway.rounds import MOST, Entry, Rounds

from tests.services import until

PATIENCE_S = 30.0


def test_everybody_gets_his_own_answer() -> None:
    def double(entries: Sequence[Entry[int, int]]) -> None:
        for entry in entries:
            entry.settle(2 * entry.ask)

    rounds: Rounds[int, int] = Rounds("double", double)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda n: rounds.ask(n, PATIENCE_S), range(500))) == [2 * n for n in range(500)]


def test_who_comes_while_a_round_is_under_way_shares_the_next() -> None:
    began, goes_on = threading.Event(), threading.Event()
    sizes: list[int] = []

    def work(entries: Sequence[Entry[int, int]]) -> None:
        sizes.append(len(entries))
        began.set()
        assert goes_on.wait(PATIENCE_S)
        for entry in entries:
            entry.settle(entry.ask)

    rounds: Rounds[int, int] = Rounds("slow", work)
    with ThreadPoolExecutor(40) as pool:
        first = pool.submit(rounds.ask, 0, PATIENCE_S)
        assert began.wait(PATIENCE_S)
        others = [pool.submit(rounds.ask, n, PATIENCE_S) for n in range(1, 31)]
        until(lambda: rounds.waiting == 30, "thirty to wait")
        goes_on.set()
        assert [first.result(), *(other.result() for other in others)] == list(range(31))
    assert sizes == [1, 30]


def test_a_round_that_fails_fails_those_who_were_in_it_and_the_next_goes_on() -> None:
    def work(entries: Sequence[Entry[int, int]]) -> None:
        entries[0].settle(1)
        if entries[0].ask < 0:
            entries[0].settle(2)  # is not heard
            raise ConnectionError("away")

    rounds: Rounds[int, int] = Rounds("failing", work)
    assert rounds.ask(-1, PATIENCE_S) == 1, "what was settled stays so"
    failing: Rounds[int, int] = Rounds("failing", lambda entries: (_ for _ in ()).throw(ConnectionError("away")))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            failing.ask(1, PATIENCE_S)


def test_nobody_waits_longer_than_he_wants() -> None:
    rounds: Rounds[int, int] = Rounds("never", lambda entries: None)
    with pytest.raises(TimeoutError):
        rounds.ask(1, 0.01)


def test_a_round_has_a_size() -> None:
    assert MOST <= 1000


def test_of_many_who_settle_at_once_one_does() -> None:
    def settle(entry: Entry[int, int], answer: int, gong: threading.Barrier) -> None:
        gong.wait(PATIENCE_S)
        entry.settle(answer)  # a second release of its lock would raise

    with ThreadPoolExecutor(4) as pool:
        for _ in range(200):
            entry, gong = Entry[int, int](0), threading.Barrier(4)
            for settling in [pool.submit(settle, entry, answer, gong) for answer in range(4)]:
                settling.result(PATIENCE_S)
            assert entry.wait(PATIENCE_S) in range(4)
