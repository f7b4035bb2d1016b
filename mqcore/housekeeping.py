"""Shell: the recurring tasks of a broker, each with its own interval."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from mqcore.config import BrokerConfig
from mqcore.host import Clock
from mqcore.identity import TopicPartition
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.durability import Durability
from mqcore.partitions.free_space import FreeSpaceMonitor
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.retention_sweep import RetentionSweep

log = logging.getLogger(__name__)

FLUSH_INTERVAL_MS = 500
RETRY_INTERVAL_MS = 1000
SPACE_CHECK_INTERVAL_MS = 100
STEP_SECONDS_MAX = 0.005

Step = Callable[[], object]


class Work(NamedTuple):
    """What the recurring tasks work on."""

    partitions: HostedPartitions
    durability: Durability
    retention: RetentionSweep
    free_space: FreeSpaceMonitor
    cleaner: Cleaner


def start(
    config: BrokerConfig,
    work: Work,
    clock: Clock,
    host: Callable[[TopicPartition, UUID], None] = lambda name, topic_id: None,
) -> list[asyncio.Task[None]]:
    """Start all tasks. `host` opens a partition."""
    checkpoint_ms = config.log_flush_offset_checkpoint_interval_ms
    watermarks_ms = config.replica_high_watermark_checkpoint_interval_ms
    tasks: list[tuple[str, float, Step]] = [
        ("retention", config.log_retention_check_interval_ms, lambda: run_in_steps(work.retention.steps(), clock)),
        ("checkpoint", checkpoint_ms, lambda: work.durability.sync_and_checkpoint(checkpoint_ms / 1000)),
        ("high watermarks", watermarks_ms, work.durability.write_high_watermarks),
        ("free space", SPACE_CHECK_INTERVAL_MS, lambda: work.free_space.check(config.log_dirs_min_free_bytes)),
        ("sync", FLUSH_INTERVAL_MS, lambda: work.durability.sync_overdue(clock.now().monotonic_ms)),
        ("retry", RETRY_INTERVAL_MS, lambda: run_in_steps(retry_steps(work.partitions, host), clock)),
    ]
    if config.log_cleaner_enable:
        tasks.append(("compaction", config.log_cleaner_backoff_ms, work.cleaner.run_once))
    return [asyncio.create_task(_repeat(task, interval_ms, step, clock)) for task, interval_ms, step in tasks]


def retry_steps(partitions: HostedPartitions, host: Callable[[TopicPartition, UUID], None]) -> Iterator[None]:
    """Try again to open partitions that failed for lack of descriptors or space; stop at the first failure."""
    for name, topic_id in partitions.retryable_failures():
        host(name, topic_id)
        if name in partitions.open_failures:
            return
        yield


async def run_in_steps(steps: Iterator[None], clock: Clock) -> None:
    """Run all steps, and let the event loop serve other work after every few milliseconds."""
    began = clock.seconds()
    for _ in steps:
        if clock.seconds() - began > STEP_SECONDS_MAX:
            await clock.sleep(0)
            began = clock.seconds()


async def _repeat(task: str, interval_ms: float, step: Step, clock: Clock) -> None:
    """Run the step after each interval. A failed step is tried again, because a full disk may have space by then."""
    while True:
        await clock.sleep(interval_ms / 1000)
        try:
            outcome = step()
            if isinstance(outcome, Awaitable):
                await outcome
        except OSError as fault:
            log.error("housekeeping failed", extra={"task": task, "reason": str(fault)})
        except Exception:
            log.exception("housekeeping failed", extra={"task": task})
