"""Shell: how far the sale has come, according to broker and database; waits until it has recovered and settled."""

from __future__ import annotations

from seckill.lab.faults.fault_stack import FaultStack
from seckill.messaging.topics import TOPICS
from seckill.report.sources import database, topics

LAST_MESSAGE_SECONDS_MAX = 600.0
"""Messages to buyers take longest."""


def in_flight(stack: FaultStack) -> int:
    """Requests in the topic that are not decided yet; -1 if the fault keeps us from finding out."""
    try:
        reached, ends = _reached(stack), topics.topic_ends(stack.broker)
    except Exception:  # any client of a broken server may raise its own exceptions
        return -1
    return sum(
        end - reached.get(("inventory", partition.topic, partition.partition), 0)
        for partition, end in ends.items()
        if partition.topic == "purchase.requests"
    )


def await_recovery(stack: FaultStack) -> None:
    """Until every process is up, and every record that is in the topics by then has been processed."""
    stack.wait_until_up()
    ends = topics.topic_ends(stack.broker)

    def are_processed() -> bool:
        reached = _reached(stack)
        return all(
            reached.get((group, partition.topic, partition.partition), 0) >= end
            for partition, end in ends.items()
            for group in TOPICS[partition.topic].readers
            if group != "analytics"
        )

    stack.wait_until(are_processed, "all records in the topics to be processed")


def await_settled(stack: FaultStack) -> None:
    """Until no order waits for its payment and no message is due, so that nothing will change any more."""
    stack.wait_until(lambda: not stack.database.orders("PENDING_PAYMENT"), "the last unpaid order to expire")
    stack.wait_until(lambda: not stack.database.deliveries_due(), "the last message", LAST_MESSAGE_SECONDS_MAX)


def _reached(stack: FaultStack) -> dict[tuple[str, str, int], int]:
    """The next offset of each group in each partition."""
    offsets, _ = database.read_offsets(stack.environment["SECKILL_DATABASE_URL"])
    return {(row.group, row.topic, row.partition): row.next_offset for row in offsets}
