"""A time limit ends a block with a `TimeoutError`, and leaves every other cancellation alone."""

from __future__ import annotations

import asyncio

import pytest

from gateway.time_limit import TimeLimit


def test_a_block_that_takes_too_long_ends_with_a_timeout_and_the_task_goes_on() -> None:
    async def scene() -> str:
        with pytest.raises(TimeoutError), TimeLimit(0.0):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(scene()) == "went on"


def test_a_block_that_ends_in_time_is_not_disturbed_later() -> None:
    async def scene() -> None:
        with TimeLimit(0.01):
            await asyncio.sleep(0)
        await asyncio.sleep(0.03)

    asyncio.run(scene())


def test_an_exception_of_the_block_and_a_cancellation_by_others_pass_through() -> None:
    async def block(began: asyncio.Event) -> None:
        with TimeLimit(60):
            began.set()
            await asyncio.Event().wait()

    async def scene() -> None:
        with pytest.raises(ValueError, match="mine"), TimeLimit(60):
            raise ValueError("mine")
        began = asyncio.Event()
        task = asyncio.create_task(block(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_cancellation_by_others_wins_over_a_limit_at_the_same_moment() -> None:
    async def block() -> None:
        task = asyncio.current_task()
        assert task is not None
        with TimeLimit(60) as _:
            task.cancel()
            await asyncio.Event().wait()

    async def scene() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(block())

    asyncio.run(scene())


def test_each_of_many_tasks_under_one_limit_has_its_own_time() -> None:
    limit = TimeLimit(0.05)

    async def block(seconds: float) -> str:
        try:
            with limit:
                await asyncio.sleep(seconds)
        except TimeoutError:
            return "late"
        return "in time"

    async def scene() -> list[str]:
        blocks = [asyncio.create_task(block(60))]
        for seconds in (0.0, 60, 0.01):  # each begins while older ones are inside
            await asyncio.sleep(0.02)
            blocks.append(asyncio.create_task(block(seconds)))
        return await asyncio.wait_for(asyncio.gather(*blocks), 5)

    for _ in range(2):  # the second time on another loop
        assert asyncio.run(scene()) == ["late", "in time", "late", "in time"]


def test_a_task_that_does_not_give_up_at_once_is_cancelled_only_once() -> None:
    limit = TimeLimit(0.01)

    async def stubborn() -> int:
        cancelled = 0
        with limit:
            for _ in range(3):
                try:
                    await asyncio.sleep(0.03)
                except asyncio.CancelledError:
                    cancelled += 1
        return cancelled

    async def other() -> None:
        with limit:
            await asyncio.sleep(0.005)

    async def scene() -> int:
        first = asyncio.create_task(stubborn())
        await asyncio.sleep(0.02)
        await other()
        return await first

    assert asyncio.run(scene()) == 1
