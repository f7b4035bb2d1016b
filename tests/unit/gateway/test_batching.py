"""Micro-batches: items that arrive together are worked on together; each caller gets its own result, or the fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.batching import BATCH_ITEMS_MAX, MicroBatcher


def test_every_caller_gets_its_own_result() -> None:
    async def double(items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]

    async def scene() -> list[int]:
        batcher = MicroBatcher(double)
        return await asyncio.gather(*map(batcher.run, range(500)))

    assert asyncio.run(scene()) == [2 * number for number in range(500)]


def test_items_that_arrive_while_a_batch_is_under_way_share_the_next_up_to_a_limit() -> None:
    sizes: list[int] = []

    async def scene() -> None:
        began, goes_on = asyncio.Event(), asyncio.Event()

        async def work(items: Sequence[int]) -> list[int]:
            sizes.append(len(items))
            began.set()
            await goes_on.wait()
            return list(items)

        batcher = MicroBatcher(work)
        first = asyncio.create_task(batcher.run(-1))
        await began.wait()
        others = [asyncio.create_task(batcher.run(number)) for number in range(BATCH_ITEMS_MAX + 5)]
        await asyncio.sleep(0)
        goes_on.set()
        assert [await first, *await asyncio.gather(*others)] == list(range(-1, BATCH_ITEMS_MAX + 5))

    asyncio.run(scene())
    assert sizes == [1, BATCH_ITEMS_MAX, 5]


def test_a_failing_batch_fails_its_own_callers_only() -> None:
    async def work(items: Sequence[int]) -> list[int]:
        if items[0] < 0:
            raise ConnectionError("away")
        return list(items)

    async def scene() -> None:
        batcher = MicroBatcher(work)
        failed = await asyncio.gather(batcher.run(-1), batcher.run(1), return_exceptions=True)
        assert [type(each) for each in failed] == [ConnectionError, ConnectionError]
        assert await batcher.run(2) == 2

    asyncio.run(scene())


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancelled_caller_does_not_disturb_the_others(fails: bool) -> None:
    async def scene() -> None:
        began, goes_on = asyncio.Event(), asyncio.Event()

        async def work(items: Sequence[int]) -> list[int]:
            began.set()
            await goes_on.wait()
            if fails:
                raise ConnectionError("away")
            return list(items)

        batcher = MicroBatcher(work)
        gone, stays = asyncio.create_task(batcher.run(1)), asyncio.create_task(batcher.run(2))
        await began.wait()
        gone.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        [answer] = await asyncio.gather(stays, return_exceptions=True)
        assert isinstance(answer, ConnectionError) if fails else answer == 2
        assert gone.cancelled()

    asyncio.run(scene())
