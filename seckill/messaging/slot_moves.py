"""Moving slots to other partitions while producers and consumers are running, without reordering any user's requests.

Four steps, each repeatable after a crash: (1) the slots are marked, so producers send nothing to them; (2)
every producer confirms that it knows, or its lease and its longest delivery have expired; (3) the group processes
everything that the old partitions contain by then; (4) the slots point to their new partitions. Every change is a
conditional update from one version of the slot map to the next, so of two operators only one succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from django.db import connection
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from seckill.audit.trail import audited
from seckill.config.kafka_clients import client_options
from seckill.messaging import kafka_cluster
from seckill.messaging.models import ConsumerOffset, ProducerLease, SlotMap
from seckill.messaging.slots import DELIVERY_SECONDS_MAX
from seckill.messaging.topics import Topic

POLL_SECONDS = 0.1
WAIT_SECONDS_MAX = 120.0

Report = Callable[[str], None]


class SlotChangeRefused(Exception):
    """The change is not possible, or not now; the text says why and what to do."""


def load_slot_map(topic: Topic) -> SlotMap:
    row = SlotMap.objects.filter(topic=topic.name).first()
    if row is None:
        raise SlotChangeRefused(f"{topic.name} has no slot map yet; `seckill topics` creates it")
    return row


def move_slots(bootstrap_servers: str, topic: Topic, group: str, moves: Mapping[int, int], report: Report) -> int:
    """Move slots (slot → partition). Returns the new version of the slot map."""
    mark_slots(bootstrap_servers, topic, moves, report)
    return finish_move(bootstrap_servers, topic, group, report)


def mark_slots(bootstrap_servers: str, topic: Topic, moves: Mapping[int, int], report: Report) -> None:
    """Step 1, once every producer knows the target partitions."""
    row = load_slot_map(topic)
    if row.moving:
        raise SlotChangeRefused(
            f"{len(row.moving)} slots are already being moved: `seckill slots finish` or `abort` first"
        )
    if row.transition:
        raise SlotChangeRefused(f"a {row.transition} is under way: wait for it, or `seckill backlog abort`")
    moves = {slot: partition for slot, partition in moves.items() if row.partition_of[slot] != partition}
    if not moves:
        raise SlotChangeRefused("these slots are already there")
    highest = max(moves.values())
    for each in with_overflow(topic):
        if highest >= kafka_cluster.count_partitions(bootstrap_servers, each):
            raise SlotChangeRefused(f"{each.name} has no partition {highest}; `seckill slots grow` adds partitions")
    wait_until_empty(
        lambda: producers_where(topic, "partitions <= %s", highest),
        "producers that do not know the new partitions yet",
        report,
    )
    _change("mark", row, {str(slot): partition for slot, partition in moves.items()}, row.partition_of)


def finish_move(bootstrap_servers: str, topic: Topic, group: str, report: Report) -> int:
    """Steps 2 to 4 for the marked slots. Returns the new version of the slot map."""
    row = load_slot_map(topic)
    if not row.moving:
        raise SlotChangeRefused("no slot is being moved")
    wait_until_empty(
        lambda: producers_where(topic, "version < %s", row.version),
        "producers that may still write by the old slot map",
        report,
    )
    old_partitions = sorted({row.partition_of[int(slot)] for slot in row.moving})
    for each in with_overflow(topic):  # both topics share the slots
        wait_until_passed(bootstrap_servers, each, group, end_offsets(bootstrap_servers, each, old_partitions), report)
    partition_of = list(row.partition_of)
    for slot, partition in row.moving.items():
        partition_of[int(slot)] = partition
    return _change("finish", row, {}, partition_of)


def abort_move(topic: Topic) -> int:
    """Leave the marked slots where they are. Returns the new version of the slot map."""
    row = load_slot_map(topic)
    if not row.moving:
        raise SlotChangeRefused("no slot is being moved")
    return _change("abort", row, {}, row.partition_of)


def add_partitions(bootstrap_servers: str, topic: Topic, partitions: int) -> None:
    """Add partitions, which moves nothing. Raises `SlotChangeRefused` if there are already more."""
    for each in with_overflow(topic):
        existing = kafka_cluster.count_partitions(bootstrap_servers, each)
        if partitions < existing:
            raise SlotChangeRefused(f"{each.name} has {existing} partitions; they cannot be reduced")
        if partitions > existing:
            admin = KafkaAdminClient(**client_options(bootstrap_servers))
            try:
                admin.create_partitions({each.name: partitions})
            finally:
                admin.close()


def with_overflow(topic: Topic) -> list[Topic]:
    """All topics that share the slots of this one."""
    return [topic] if topic.overflow is None else [topic, topic.overflow]


def wait_until_passed(
    bootstrap_servers: str, topic: Topic, group: str, barrier: Mapping[int, int], report: Report
) -> None:
    """Wait until the group has gone past these offsets, partition by partition."""
    described = kafka_cluster.describe_cluster(bootstrap_servers, [topic])
    wait_until_empty(
        lambda: _behind(described, topic, group, barrier), f"{group} to process the old partitions", report
    )


def _change(step: str, row: SlotMap, moving: Mapping[str, int], partition_of: list[int]) -> int:
    with audited(f"slots {step}", row.topic, version=row.version + 1, moving=dict(moving or row.moving)):
        changed = SlotMap.objects.filter(topic=row.topic, version=row.version).update(
            version=row.version + 1, moving=moving, partition_of=partition_of
        )
        if changed != 1:
            raise SlotChangeRefused("another operator has changed the slot map meanwhile; see `seckill slots show`")
    return row.version + 1


def producers_where(topic: Topic, condition: str, value: float) -> list[str]:
    """Names of the producers whose lease meets the condition and that may still send, or have records under way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM streams_producer_lease WHERE expires_at < now() - make_interval(secs => %s)",
            [DELIVERY_SECONDS_MAX],
        )
        cursor.execute(
            f"SELECT name FROM {ProducerLease._meta.db_table} WHERE topic = %s AND {condition} ORDER BY name",  # nosec B608
            [topic.name, value],
        )
        return [str(name) for (name,) in cursor.fetchall()]


def _behind(described: kafka_cluster.ClusterIds, topic: Topic, group: str, barrier: Mapping[int, int]) -> list[str]:
    """The partitions whose barrier the group has not passed, each with the number of missing records."""
    rows = ConsumerOffset.objects.filter(
        cluster_id=described.id, topic_id=described.topic_ids[topic.name], group=group, partition__in=barrier
    )
    read = {row.partition: row.next_offset for row in rows}
    return [f"{partition}: {end - read.get(partition, 0)}" for partition, end in barrier.items()
            if end > read.get(partition, 0)]  # fmt: skip


def wait_until_empty(missing: Callable[[], list[str]], what: str, report: Report) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    reported: list[str] = []
    while found := missing():
        if time.monotonic() > deadline:
            raise SlotChangeRefused(f"waited {WAIT_SECONDS_MAX:.0f} s for {what}: {', '.join(found)}")
        if found != reported:
            report(f"waiting for {what}: {', '.join(found[:5])}")
            reported = found
        time.sleep(POLL_SECONDS)


def end_offsets(bootstrap_servers: str, topic: Topic, partitions: Iterable[int]) -> dict[int, int]:
    consumer = KafkaConsumer(**client_options(bootstrap_servers), enable_auto_commit=False)
    try:
        ends = consumer.end_offsets([TopicPartition(topic.name, number) for number in partitions])
        return {partition.partition: end for partition, end in ends.items()}
    finally:
        consumer.close()
