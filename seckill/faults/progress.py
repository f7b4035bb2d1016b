"""Shell: how far the sale has come, as broker and database say it."""

from __future__ import annotations

from seckill.consistency.sources import database, topics
from seckill.faults.world import World
from seckill.topics import TOPICS

LAST_S = 600.0
"""Messages are the slowest of all."""


def in_flight(world: World) -> int:
    """Requests in the log that are not decided yet; -1 if nobody can say."""
    try:
        reached, ends = _reached(world), topics.cut(world.broker)
    except Exception:  # what it asks may be what is broken
        return -1
    return sum(
        end - reached.get(("inventory", partition.topic, partition.partition), 0)
        for partition, end in ends.items()
        if partition.topic == "purchase.requests"
    )


def await_recovery(world: World) -> None:
    """Every process is up, and what stands in the topics by then has been worked off."""
    world.wait_until(world.is_up, "every process to be up")
    ends = topics.cut(world.broker)

    def is_read() -> bool:
        reached = _reached(world)
        return all(
            reached.get((group, partition.topic, partition.partition), 0) >= end
            for partition, end in ends.items()
            for group in TOPICS[partition.topic].readers
            if group != "analytics"
        )

    world.wait_until(is_read, "the topics to be worked off")


def await_rest(world: World) -> None:
    """No order waits for its payment and no message for its telling: from now on nothing happens by itself."""
    world.wait_until(
        lambda: not world.count("orders_order WHERE state = 'PENDING_PAYMENT'"), "the last unpaid order to end"
    )
    world.wait_until(lambda: not world.count("notifications_delivery WHERE state = 'due'"), "the last message", LAST_S)


def _reached(world: World) -> dict[tuple[str, str, int], int]:
    """The next offset of each group in each partition."""
    offsets, _ = database.offsets(world.environment["SECKILL_DATABASE_URL"])
    return {(row.group, row.topic, row.partition): row.next_offset for row in offsets}
