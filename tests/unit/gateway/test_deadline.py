"""A deadline ends its block with a `TimeoutError`, and leaves every other cancellation alone."""

from __future__ import annotations

import asyncio

import pytest

from gateway.deadline import Deadline


def test_a_block_that_takes_too_long_ends_with_a_timeout_and_the_task_goes_on() -> None:
    async def scene() -> str:
        with pytest.raises(TimeoutError), Deadline(0.0):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(scene()) == "went on"


def test_a_block_that_ends_in_time_is_not_disturbed_later() -> None:
    async def scene() -> None:
        with Deadline(0.01):
            await asyncio.sleep(0)
        await asyncio.sleep(0.03)

    asyncio.run(scene())


def test_an_exception_of_the_block_and_a_cancellation_by_others_pass_through() -> None:
    async def block(began: asyncio.Event) -> None:
        with Deadline(60):
            began.set()
            await asyncio.Event().wait()

    async def scene() -> None:
        with pytest.raises(ValueError, match="mine"), Deadline(60):
            raise ValueError("mine")
        began = asyncio.Event()
        task = asyncio.create_task(block(began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_cancellation_by_others_wins_over_a_deadline_at_the_same_moment() -> None:
    async def block() -> None:
        task = asyncio.current_task()
        assert task is not None
        with Deadline(60) as _:
            task.cancel()
            await asyncio.Event().wait()

    async def scene() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(block())

    asyncio.run(scene())
