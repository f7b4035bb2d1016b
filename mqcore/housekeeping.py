"""Shell: what a broker does on the side, each task with its own beat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mqcore.clock import Clock
from mqcore.config import BrokerConfig
from mqcore.partitions.hosted import HostedPartitions

log = logging.getLogger(__name__)

FLUSH_BEAT_MS = 500


def start(config: BrokerConfig, partitions: HostedPartitions, clock: Clock) -> list[asyncio.Task[None]]:
    def checkpoint() -> None:
        partitions.sync_all()
        partitions.checkpoint()

    beats: list[tuple[float, Callable[[], None]]] = [
        (config.log_retention_check_interval_ms, partitions.expire),
        (config.log_flush_offset_checkpoint_interval_ms, checkpoint),
        (FLUSH_BEAT_MS, lambda: partitions.sync_overdue(clock.now().monotonic_ms)),
    ]
    return [asyncio.create_task(_repeat(beat_ms, step)) for beat_ms, step in beats]


async def _repeat(beat_ms: float, step: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(beat_ms / 1000)
        try:
            step()
        except OSError as fault:
            log.error("housekeeping failed", extra={"reason": str(fault)})
