"""Moving slots to other partitions while producers write and consumers read, with every user's order kept.

Four steps, each of which may be repeated after a crash: (1) the slots are marked as moving, and take nothing; (2) every
producer says that it knows, or its lease ends and the longest delivery with it; (3) the group passes what the old
partitions have by then; (4) the slots are switched. The table is changed by conditional updates only, from one version
to the next: two operators at once cannot both succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from django.db import connection
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from seckill.audit.trail import acting
from seckill.streams import cluster
from seckill.streams.models import ConsumerOffset, ProducerLease, SlotMap
from seckill.streams.slots import MOST_DELIVERY_S
from seckill.topics import Topic

LOOK_S = 0.1
PATIENCE_S = 120.0

Tell = Callable[[str], None]


class Refused(Exception):
    """It cannot be done, or not now; the text says why, and what to do."""


def table(topic: Topic) -> SlotMap:
    row = SlotMap.objects.filter(topic=topic.name).first()
    if row is None:
        raise Refused(f"{topic.name} has no table of slots yet; `seckill topics` makes it")
    return row


def move(bootstrap_servers: str, topic: Topic, group: str, moves: Mapping[int, int], tell: Tell) -> int:
    """Slot → partition; the version of the table afterwards."""
    mark(bootstrap_servers, topic, moves, tell)
    return finish(bootstrap_servers, topic, group, tell)


def mark(bootstrap_servers: str, topic: Topic, moves: Mapping[int, int], tell: Tell) -> None:
    """Step 1, once every producer knows the partitions that are to get something."""
    row = table(topic)
    if row.moving:
        raise Refused(f"{len(row.moving)} slots are being moved already: finish that first, or abort it")
    if row.turning:
        raise Refused(f"a {row.turning} is under way: `seckill backlog` finishes or aborts it")
    moves = {slot: partition for slot, partition in moves.items() if row.partition_of[slot] != partition}
    if not moves:
        raise Refused("these slots are there already")
    most = max(moves.values())
    for each in with_beside(topic):
        if most >= cluster.count_partitions(bootstrap_servers, each):
            raise Refused(f"{each.name} has no partition {most}; `seckill slots grow` adds partitions")
    wait(lambda: who(topic, "partitions <= %s", most), "producers that do not know the new partitions yet", tell)
    _change("mark", row, {str(slot): partition for slot, partition in moves.items()}, row.partition_of)


def finish(bootstrap_servers: str, topic: Topic, group: str, tell: Tell) -> int:
    """Steps 2 to 4 of whatever is marked."""
    row = table(topic)
    if not row.moving:
        raise Refused("no slot is being moved")
    wait(lambda: who(topic, "version < %s", row.version), "producers that may still write by the old table", tell)
    left = sorted({row.partition_of[int(slot)] for slot in row.moving})
    for each in with_beside(topic):  # the slots are those of both
        pass_by(bootstrap_servers, each, group, ends_of(bootstrap_servers, each, left), tell)
    partition_of = list(row.partition_of)
    for slot, partition in row.moving.items():
        partition_of[int(slot)] = partition
    return _change("finish", row, {}, partition_of)


def abort(topic: Topic) -> int:
    """Leave the marked slots where they are."""
    row = table(topic)
    if not row.moving:
        raise Refused("no slot is being moved")
    return _change("abort", row, {}, row.partition_of)


def add_partitions(bootstrap_servers: str, topic: Topic, partitions: int) -> None:
    """Nothing moves by that; `Refused` if there are more already."""
    for each in with_beside(topic):
        there = cluster.count_partitions(bootstrap_servers, each)
        if partitions < there:
            raise Refused(f"{each.name} has {there} partitions; they cannot become fewer")
        if partitions > there:
            admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
            try:
                admin.create_partitions({each.name: partitions})
            finally:
                admin.close()


def with_beside(topic: Topic) -> list[Topic]:
    """All topics that go by the slots of this one."""
    return [topic] if topic.beside is None else [topic, topic.beside]


def pass_by(bootstrap_servers: str, topic: Topic, group: str, barrier: Mapping[int, int], tell: Tell) -> None:
    """Wait until the group has gone past these offsets, partition by partition."""
    described = cluster.describe(bootstrap_servers, [topic])
    wait(lambda: _behind(described, topic, group, barrier), f"{group}, which has yet to pass", tell)


def _change(step: str, row: SlotMap, moving: Mapping[str, int], partition_of: list[int]) -> int:
    with acting(f"slots {step}", row.topic, version=row.version + 1, moving=dict(moving or row.moving)):
        changed = SlotMap.objects.filter(topic=row.topic, version=row.version).update(
            version=row.version + 1, moving=moving, partition_of=partition_of
        )
        if changed != 1:
            raise Refused("somebody else has changed the table meanwhile; look again with `seckill slots show`")
    return row.version + 1


def who(topic: Topic, condition: str, value: float) -> list[str]:
    """Producers of whom it holds, and who may still write or have something under way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM streams_producer_lease WHERE expires_at < now() - make_interval(secs => %s)",
            [MOST_DELIVERY_S],
        )
        cursor.execute(
            f"SELECT name FROM {ProducerLease._meta.db_table} WHERE topic = %s AND {condition} ORDER BY name",  # nosec B608
            [topic.name, value],
        )
        return [str(name) for (name,) in cursor.fetchall()]


def _behind(described: cluster.Cluster, topic: Topic, group: str, barrier: Mapping[int, int]) -> list[str]:
    """The partitions whose barrier the group has not passed, and by how much."""
    rows = ConsumerOffset.objects.filter(
        cluster_id=described.id, topic_id=described.topic_ids[topic.name], group=group, partition__in=barrier
    )
    read = {row.partition: row.next_offset for row in rows}
    return [f"{partition}: {end - read.get(partition, 0)}" for partition, end in barrier.items()
            if end > read.get(partition, 0)]  # fmt: skip


def wait(missing: Callable[[], list[str]], what: str, tell: Tell) -> None:
    deadline = time.monotonic() + PATIENCE_S
    said: list[str] = []
    while found := missing():
        if time.monotonic() > deadline:
            raise Refused(f"waited {PATIENCE_S:.0f} s for {what}: {', '.join(found)}")
        if found != said:
            tell(f"waiting for {what}: {', '.join(found[:5])}")
            said = found
        time.sleep(LOOK_S)


def ends_of(bootstrap_servers: str, topic: Topic, partitions: Iterable[int]) -> dict[int, int]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False)
    try:
        ends = consumer.end_offsets([TopicPartition(topic.name, number) for number in partitions])
        return {partition.partition: end for partition, end in ends.items()}
    finally:
        consumer.close()
