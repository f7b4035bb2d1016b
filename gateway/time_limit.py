"""Shell: a limit on how long a block of a coroutine may take. `asyncio.timeout` does the same with a timer for each
block; a purchase needs two of them, which was a tenth of its CPU.

All blocks under one limit end in the order in which they began, so one timer, set for the oldest, is enough.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, CancelledError, Task, TimerHandle, current_task, get_running_loop
from types import TracebackType
from typing import Any

CANCELLED = float("inf")


class TimeLimit:
    """A context manager for any number of tasks. Raises `TimeoutError` in a task whose block takes longer. A task must
    not enter the same limit twice."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: AbstractEventLoop | None = None
        self._timer: TimerHandle | None = None
        self._tasks: dict[Task[Any], float] = {}  # when each block must have ended, or CANCELLED; the oldest first

    def __enter__(self) -> None:
        loop = get_running_loop()
        if loop is not self._loop:  # another loop, whose timers are gone
            self._loop, self._timer = loop, None
            self._tasks.clear()
        task = current_task(loop)
        assert task is not None
        self._tasks[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._cancel_late, loop)

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        task = current_task(self._loop)
        assert task is not None
        if self._tasks.pop(task) == CANCELLED and task.uncancel() == 0 and kind is CancelledError:
            raise TimeoutError from fault

    def _cancel_late(self, loop: AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for task, ends_at in self._tasks.items():
            if ends_at == CANCELLED:
                continue
            if ends_at > now:
                self._timer = loop.call_at(ends_at, self._cancel_late, loop)
                break
            self._tasks[task] = CANCELLED
            task.cancel()
