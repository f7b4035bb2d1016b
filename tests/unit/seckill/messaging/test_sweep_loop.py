"""A sweep runs again at once while more is due, waits otherwise, and survives transient faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError

from seckill.messaging.sweep_loop import Sweep


class ScriptedRuns:
    """Each run of the sweep has a prepared result; the last one stops the sweep."""

    def __init__(self, *results: bool | Exception) -> None:
        self.left = list(results)
        self.waits: list[float] = []

    def run(self) -> None:
        sweep = Sweep("test", 7.0, lambda: self.run_once(sweep.stop))
        sweep._stopping.wait = self.wait  # type: ignore[assignment,method-assign]
        sweep.run()

    def run_once(self, stop: Callable[[], None]) -> bool:
        result = self.left.pop(0)
        if not self.left:
            stop()
        if isinstance(result, Exception):
            raise result
        return result

    def wait(self, seconds: float | None = None) -> bool:
        assert seconds is not None
        self.waits.append(seconds)
        return False


def test_a_sweep_waits_only_when_nothing_more_is_due() -> None:
    runs = ScriptedRuns(True, True, False, True)
    runs.run()
    assert runs.waits == [7.0]


@pytest.mark.parametrize("fault", [OperationalError("unavailable"), ConnectionError("unavailable")])
def test_a_database_or_redis_outage_costs_one_interval(fault: Exception) -> None:
    runs = ScriptedRuns(fault, True)
    runs.run()
    assert runs.left == []
    assert runs.waits == [7.0]


def test_any_other_exception_ends_the_sweep() -> None:
    with pytest.raises(ZeroDivisionError):
        ScriptedRuns(ZeroDivisionError(), True).run()
