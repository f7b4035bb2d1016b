"""What counts as a silence: only what was really seen from outside."""

from __future__ import annotations

import pytest

from seckill.console.watch.sign_log import FORGET_MS, SERVER, SILENT_MS_MIN, End, Kind, SignLog, SilentTime
from seckill.report.disturbances import ENDED, WATCHER, WHAT


class World:
    """Processes that send a sign each second, and a log that is called twice as often."""

    def __init__(self, *names: str) -> None:
        self.now_ms, self.log, self.found = 0, SignLog(0), list[SilentTime]()
        self.lives = dict.fromkeys(names, "first")

    def run(self, seconds: float, *quiet: str, is_watched: bool = True) -> None:
        for _ in range(int(2 * seconds)):
            self.now_ms += 500
            if not is_watched:
                continue
            if self.now_ms % 1000 == 0:
                for name in self.lives.keys() - set(quiet):
                    self.found += self.log.sign(name, self.lives[name], self.now_ms)
            self.found += self.log.tick(self.now_ms)

    def restart(self, name: str) -> None:
        self.lives[name] = f"after {self.now_ms}"

    def leave(self, name: str) -> None:
        self.found += self.log.goodbye(name, self.lives[name], self.now_ms)


def test_a_quiet_run_shows_nothing() -> None:
    world = World("inventory", "orders", "mqcore")
    world.run(3600)
    assert world.found == []


def test_it_tells_the_state_of_each_process() -> None:
    world = World("orders", "inventory", "celery")
    world.run(10)
    assert list(world.log.states().items()) == [("celery", "up"), ("inventory", "up"), ("orders", "up")]
    world.leave("celery")
    world.run(6, "inventory", "celery")
    assert world.log.states() == {"celery": "down", "inventory": "no answer", "orders": "up"}
    world.restart("inventory")
    world.run(2, "celery")
    assert world.log.states() == {"celery": "down", "inventory": "up", "orders": "up"}


def test_a_paused_process_is_silent_until_the_same_life_goes_on() -> None:
    world = World("inventory", "orders")
    world.run(10)
    world.run(6, "inventory")
    world.run(5)
    began, ended = world.found
    assert began == SilentTime("inventory", Kind.SILENT, 10_000)
    assert ended == SilentTime("inventory", Kind.SILENT, 10_000, 17_000, End.RESUMED)


def test_a_killed_process_is_silent_until_another_life_begins() -> None:
    world = World("inventory")
    world.run(10)
    world.run(6, "inventory")
    world.restart("inventory")
    world.run(5)
    assert [each.ended_by for each in world.found] == [None, End.RESTARTED]


def test_a_kill_is_noticed_even_if_the_next_life_begins_at_once() -> None:
    world = World("inventory")
    world.run(10)
    world.restart("inventory")
    world.run(2)
    assert world.found == [SilentTime("inventory", Kind.SILENT, 10_000, 11_000, End.RESTARTED)]


def test_a_process_that_never_comes_back_is_reported_once_without_an_end() -> None:
    world = World("inventory", "orders")
    world.run(10)
    world.run(2 * FORGET_MS / 1000, "inventory")
    assert world.found == [SilentTime("inventory", Kind.SILENT, 10_000)]


def test_a_process_that_says_goodbye_was_stopped_and_not_killed() -> None:
    world = World("inventory")
    world.run(10)
    world.leave("inventory")
    world.run(5, "inventory")
    world.restart("inventory")
    world.run(1)
    assert [(each.kind, each.ended_by) for each in world.found] == [
        (Kind.STOPPED, None),
        (Kind.STOPPED, End.RESTARTED),
    ]


def test_a_quick_restart_in_order_is_not_reported() -> None:
    world = World("inventory")
    world.run(10)
    world.leave("inventory")
    world.restart("inventory")
    world.run(10)
    assert world.found == []


def test_a_sign_that_overtakes_its_goodbye_does_not_bring_the_process_back() -> None:
    world = World("inventory")
    world.run(10)
    world.leave("inventory")
    world.run(5)  # the same life goes on sending
    assert [each.kind for each in world.found] == [Kind.STOPPED]


def test_a_time_without_a_watcher_says_nothing_about_the_others() -> None:
    """The report service is paused: signs were lost, and that proves nothing about the processes."""
    world = World("inventory", "orders")
    world.run(10)
    world.run(20, is_watched=False)
    world.run(10)
    assert world.found == [SilentTime(WATCHER, Kind.UNWATCHED, 10_000, 30_500, End.RESUMED)]


def test_a_process_that_stays_silent_after_that_is_reported_from_then_on() -> None:
    world = World("inventory", "orders")
    world.run(10)
    world.run(20, is_watched=False)
    world.run(10, "inventory")
    assert world.found[1:] == [SilentTime("inventory", Kind.SILENT, 30_500)]


@pytest.mark.parametrize(("missed_ms", "is_silence"), [(SILENT_MS_MIN - 1, False), (SILENT_MS_MIN, True)])
def test_a_silence_has_a_shortest_length(missed_ms: int, is_silence: bool) -> None:
    log = SignLog(0)
    log.sign("inventory", "first", 0)
    assert not log.tick(1_000) and not log.tick(2_000)
    assert bool(log.tick(missed_ms)) is is_silence


def test_a_watcher_that_was_delayed_for_a_moment_accuses_no_process() -> None:
    """On a busy machine: its own delay, and the second since the last sign, are not a silence of the others."""
    log = SignLog(0)
    log.sign("inventory", "first", 0)
    log.tick(1_000)
    assert log.tick(3_900) == []
    log.sign("inventory", "first", 3_950)
    assert log.tick(4_400) == []


def test_the_report_has_words_for_everything_that_is_written_down() -> None:
    assert set(WHAT) == set(Kind) and set(ENDED) == set(End)


def test_a_server_that_does_not_answer_is_not_called_dead() -> None:
    log = SignLog(0)
    log.sign("postgres", SERVER, 0)
    [found] = [each for second in range(1, 6) for each in log.tick(1000 * second)]
    assert found == SilentTime("postgres", Kind.UNANSWERED, 0)
    assert log.sign("postgres", SERVER, 6000) == [found._replace(ended_at_ms=6000, ended_by=End.RESUMED)]


def test_a_server_that_was_never_heard_is_not_missed() -> None:
    """Statistics, a second broker: what does not run in this installation."""
    log = SignLog(0)
    assert [found for second in range(100) for found in log.tick(1000 * second)] == []
