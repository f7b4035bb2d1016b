"""The sweep looks again at once while there is much to do, else waits, and outlives what fails passingly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError

from seckill.streams.sweeping import Sweep


class Looks:
    """Each look has its answer; after the last one the sweep is told to stop."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.left = list(answers)
        self.waits: list[float] = []

    def run(self) -> None:
        sweep = Sweep("test", 7.0, lambda: self.look(sweep.stop))
        sweep._stopping.wait = self.wait  # type: ignore[assignment,method-assign]
        sweep.run()

    def look(self, stop: Callable[[], None]) -> bool:
        answer = self.left.pop(0)
        if not self.left:
            stop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, seconds: float | None = None) -> bool:
        assert seconds is not None
        self.waits.append(seconds)
        return False


def test_it_waits_a_beat_after_a_look_that_found_nothing_more_and_not_after_another() -> None:
    looks = Looks(True, True, False, True)
    looks.run()
    assert looks.waits == [7.0]


@pytest.mark.parametrize("fault", [OperationalError("away"), ConnectionError("away")])
def test_a_database_or_redis_that_is_away_costs_a_beat(fault: Exception) -> None:
    looks = Looks(fault, True)
    looks.run()
    assert looks.left == []
    assert looks.waits == [7.0]


def test_what_is_nobodys_absence_ends_it() -> None:
    with pytest.raises(ZeroDivisionError):
        Looks(ZeroDivisionError(), True).run()
