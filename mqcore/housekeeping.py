"""Shell: what a broker does on the side, each task with its own beat."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from uuid import UUID

from mqcore.clock import Clock
from mqcore.config import BrokerConfig
from mqcore.identity import TopicPartition
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.hosted import HostedPartitions

log = logging.getLogger(__name__)

FLUSH_BEAT_MS = 500
RETRY_BEAT_MS = 1000
SPACE_BEAT_MS = 100
STEP_S = 0.005

Step = Callable[[], object]


def start(
    config: BrokerConfig,
    partitions: HostedPartitions,
    cleaner: Cleaner,
    clock: Clock,
    host: Callable[[TopicPartition, UUID], None] = lambda name, topic_id: None,
) -> list[asyncio.Task[None]]:
    """`host` opens a partition."""

    checkpoint_ms = config.log_flush_offset_checkpoint_interval_ms
    beats: list[tuple[str, float, Step]] = [
        ("retention", config.log_retention_check_interval_ms, lambda: _in_steps(partitions.expire_steps())),
        ("checkpoint", checkpoint_ms, lambda: partitions.sync_and_checkpoint(checkpoint_ms / 1000)),
        ("free space", SPACE_BEAT_MS, lambda: partitions.look_at_space(config.log_dirs_min_free_bytes)),
        ("sync", FLUSH_BEAT_MS, lambda: partitions.sync_overdue(clock.now().monotonic_ms)),
        ("retry", RETRY_BEAT_MS, lambda: _in_steps(retry_steps(partitions, host))),
    ]
    if config.log_cleaner_enable:
        beats.append(("compaction", config.log_cleaner_backoff_ms, cleaner.run_once))
    return [asyncio.create_task(_repeat(task, beat_ms, step)) for task, beat_ms, step in beats]


def retry_steps(partitions: HostedPartitions, host: Callable[[TopicPartition, UUID], None]) -> Iterator[None]:
    """Open what could not be opened for lack of descriptors or space; the first failure ends the round."""
    for name, topic_id in partitions.retryable():
        host(name, topic_id)
        if name in partitions.offline:
            return
        yield


async def _in_steps(steps: Iterator[None]) -> None:
    """With a turn for everybody else whenever a few milliseconds are over."""
    began = time.monotonic()
    for _ in steps:
        if time.monotonic() - began > STEP_S:
            await asyncio.sleep(0)
            began = time.monotonic()


async def _repeat(task: str, beat_ms: float, step: Step) -> None:
    """For ever. What fails once is tried again at the next beat: a full disk may have been emptied."""
    while True:
        await asyncio.sleep(beat_ms / 1000)
        try:
            outcome = step()
            if isinstance(outcome, Awaitable):
                await outcome
        except OSError as fault:
            log.error("housekeeping failed", extra={"task": task, "reason": str(fault)})
        except Exception:
            log.exception("housekeeping failed", extra={"task": task})
