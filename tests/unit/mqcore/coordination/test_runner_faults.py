"""What callers get when a journal, a rule, a machine or another caller fails."""

from __future__ import annotations

import pytest

from mqcore.coordination.journal import CommandFailed, JournalFault
from mqcore.identity import Millis
from tests.unit.mqcore.coordination.counter_machine import Add, Bench, WaitFor


def test_a_command_that_cannot_be_journaled_changes_nothing_and_fails_alone() -> None:
    bench = Bench()
    waiting = bench.wait_for(3)
    bench.journal.broken = True
    assert isinstance(bench.submit(Add(3))[0], JournalFault)
    assert (bench.machine.count, waiting) == (0, [])
    bench.journal.broken = False
    bench.submit(Add(3))
    assert waiting == [3]


def test_a_tick_that_cannot_be_journaled_is_tried_again_after_a_second() -> None:
    bench = Bench()
    waiting = bench.wait_for(9, 100)
    bench.journal.broken = True
    bench.clock.advance(100)
    assert waiting == []
    assert bench.clock.next_timer_ms == 1_000
    bench.journal.broken = False
    bench.clock.advance(1_000)
    assert waiting == ["late"]


def test_a_stopped_runner_answers_waiting_and_later_callers_with_the_fault() -> None:
    bench = Bench()
    waiting = bench.wait_for(9)
    fault = JournalFault("led by another broker")
    bench.runner.stop(fault)
    assert waiting == [fault]
    assert bench.submit(Add(1)) == [fault]
    assert bench.clock.next_timer_ms is None
    assert bench.machine.count == 0


def test_a_commit_after_the_stop_answers_no_caller_a_second_time() -> None:
    bench = Bench()
    bench.journal.hold()
    heard = bench.submit(Add(1))
    fault = JournalFault("led by another broker")
    bench.runner.stop(fault)
    bench.journal.release()
    assert heard == [fault]


@pytest.mark.parametrize("where", ["decide", "append"])
def test_an_exception_in_a_rule_or_codec_fails_its_command_without_effect(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    other = bench.wait_for(3)

    def fail(*arguments: object) -> None:
        raise ValueError("too large for an int64")

    with monkeypatch.context() as patch:
        patch.setattr(bench.machine if where == "decide" else bench.journal, where, fail)
        heard = bench.submit(Add(3))
    assert isinstance(heard[0], CommandFailed)
    assert "Add failed: ValueError: too large for an int64" in str(heard[0])
    assert (len(heard), bench.machine.count, other, bench.waiting_callers) == (1, 0, [], 1)
    assert bench.submit(Add(3)) == [3]
    assert (other, bench.waiting_callers) == ([3], 0)


def test_a_tick_that_raises_is_tried_again_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    waiting = bench.wait_for(9, 100)
    with monkeypatch.context() as patch:
        patch.setattr(bench.machine, "decide", lambda *arguments: 1 // 0)
        bench.clock.advance(100)
    assert (waiting, bench.clock.next_timer_ms) == ([], 1_000)
    bench.clock.advance(1_000)
    assert waiting == ["late"]


def test_a_machine_that_cannot_apply_a_journaled_fact_is_stopped_and_its_callers_get_the_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    waiting = bench.wait_for(9)
    monkeypatch.setattr(bench.machine, "apply", lambda fact: 1 // 0)
    for heard in (bench.submit(Add(1)), waiting, bench.submit(Add(1))):
        assert len(heard) == 1
        assert isinstance(heard[0], CommandFailed)
    assert bench.clock.next_timer_ms is None


def test_a_caller_that_raises_does_not_keep_the_others_from_their_answers() -> None:
    bench = Bench()
    bench.journal.hold()

    def fail(answer: object) -> None:
        raise RuntimeError("a defect in an API module")

    bench.runner.submit(WaitFor(3, Millis(bench.clock.monotonic_ms + 500)), fail)
    waiting = bench.wait_for(3)
    late = bench.wait_for(9, 700)
    added = bench.submit(Add(3))
    with pytest.raises(RuntimeError):
        bench.journal.release()
    assert (waiting, added) == ([3], [3])
    bench.clock.advance(700)
    assert late == ["late"]
