"""An answer that one thread computes and many get."""

from __future__ import annotations

import itertools
import threading

import pytest

from seckill.resilience.shared_value import SharedValue


def test_a_value_is_reused_while_it_is_fresh() -> None:
    computed = itertools.count(1)
    cached = SharedValue(lambda: next(computed), fresh_seconds=1000)
    assert [cached.get() for _ in range(5)] == [1] * 5
    always = SharedValue(lambda: next(computed), fresh_seconds=0)
    assert [always.get() for _ in range(3)] == [2, 3, 4]


def test_while_one_thread_computes_the_others_get_the_previous_value_or_none() -> None:
    started, go_on, answers = threading.Event(), threading.Event(), iter(["first", "second"])

    def compute() -> str:
        started.set()
        assert go_on.wait(30)
        return next(answers)

    cached = SharedValue(compute, fresh_seconds=0)
    for before in (None, "first"):
        started.clear()
        go_on.clear()
        thread = threading.Thread(target=cached.get)
        thread.start()
        assert started.wait(30)
        assert cached.get() == before
        go_on.set()
        thread.join(30)


def test_an_exception_is_not_cached() -> None:
    outcomes = iter([OSError("unavailable"), None])

    def compute() -> str:
        if (outcome := next(outcomes)) is not None:
            raise outcome
        return "here"

    cached = SharedValue(compute, fresh_seconds=1000)
    with pytest.raises(OSError):
        cached.get()
    assert cached.get() == "here"
