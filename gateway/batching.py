"""Shell: one call for many coroutines: items that arrive while a call is under way share the next one.

A call to Redis costs more than a whole request; a call with fifty items costs hardly more than one with a single item.
A batch starts as soon as the one before has ended, so no item waits for others, and batches grow with the load.
"""

from __future__ import annotations

from asyncio import Future, Task, get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

BATCH_ITEMS_MAX = 256

Item = TypeVar("Item")
Result = TypeVar("Result")


class MicroBatcher(Generic[Item, Result]):
    """`work` returns one result for each item, in order. If it raises, each caller of the batch gets the exception."""

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]) -> None:
        self._work = work
        self._waiting: list[tuple[Item, Future[Result]]] = []
        self._task: Task[None] | None = None

    async def run(self, item: Item) -> Result:
        loop = get_running_loop()
        future: Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = loop.create_task(self._run_batches())
        return await future

    async def _run_batches(self) -> None:
        while self._waiting:
            batch = self._waiting[:BATCH_ITEMS_MAX]
            del self._waiting[:BATCH_ITEMS_MAX]
            try:
                results = await self._work([item for item, _ in batch])
                pairs = list(zip(batch, results, strict=True))
            except Exception as fault:
                for _, future in batch:
                    if not future.done():  # its caller may have been cancelled
                        future.set_exception(fault)
                continue
            for (_, future), result in pairs:
                if not future.done():
                    future.set_result(result)
        self._task = None
