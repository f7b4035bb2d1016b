"""An answer that one thread computes and many get."""

from __future__ import annotations

import itertools
import threading

import pytest

from seckill.cached import Cached


def test_an_answer_is_kept_while_it_is_fresh() -> None:
    computed = itertools.count(1)
    cached = Cached(lambda: next(computed), fresh_s=1000)
    assert [cached.get() for _ in range(5)] == [1] * 5
    always = Cached(lambda: next(computed), fresh_s=0)
    assert [always.get() for _ in range(3)] == [2, 3, 4]


def test_while_one_thread_computes_the_others_get_the_previous_answer_or_none() -> None:
    started, go_on, answers = threading.Event(), threading.Event(), iter(["first", "second"])

    def compute() -> str:
        started.set()
        assert go_on.wait(30)
        return next(answers)

    cached = Cached(compute, fresh_s=0)
    for before in (None, "first"):
        started.clear()
        go_on.clear()
        thread = threading.Thread(target=cached.get)
        thread.start()
        assert started.wait(30)
        assert cached.get() == before
        go_on.set()
        thread.join(30)


def test_a_failure_is_not_kept() -> None:
    outcomes = iter([OSError("away"), None])

    def compute() -> str:
        if (outcome := next(outcomes)) is not None:
            raise outcome
        return "here"

    cached = Cached(compute, fresh_s=1000)
    with pytest.raises(OSError):
        cached.get()
    assert cached.get() == "here"
