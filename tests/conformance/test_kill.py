"""After kill -9 at any instant, no acknowledged record is lost, duplicated, moved or reordered.

Idempotent producers and consumers of two client libraries run while the broker is killed again and again. In between,
topics are created and offsets are committed, which must also exist after the next kill.
`KILLS=100 SEED=7 pytest tests/conformance/test_kill.py` runs longer, or repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.crowd import ConfluentReader, ConfluentWriter, GroupReader, PythonReader, PythonWriter, Writer
from tests.conformance.history import History, anomalies

KILLS = int(os.environ.get("KILLS", "6"))
PARTITIONS = 3
PATIENCE_S = 60.0


class Witness:
    """Creates a topic and commits an offset after each start, and records what was acknowledged."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.address, "log_level": 0}
        self._topic = topic
        self._made: set[str] = set()
        self._committed: dict[str, int] = {}

    def act(self, round_number: int) -> None:
        made = f"{self._topic}-made-{round_number}"
        admin = AdminClient(self._settings)
        try:
            admin.create_topics([NewTopic(made, 1, 1)])[made].result(PATIENCE_S)
        except KafkaException as fault:  # a retry after a lost connection: the topic exists, as acknowledged
            assert fault.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, fault
        self._made.add(made)
        for group in (f"{self._topic}-steady", f"{self._topic}-{round_number}"):
            self._commit(group, 100 + round_number)

    def _commit(self, group: str, offset: int) -> None:
        consumer = Consumer({**self._settings, "group.id": group})
        consumer.commit(offsets=[TopicPartition(self._topic, 0, offset)], asynchronous=False)
        consumer.close()
        self._committed[group] = offset

    def check(self) -> None:
        listed = AdminClient(self._settings).list_topics(timeout=PATIENCE_S).topics
        assert self._made <= set(listed)
        for group, offset in self._committed.items():
            consumer = Consumer({**self._settings, "group.id": group})
            (found,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=PATIENCE_S)
            consumer.close()
            assert found.offset == offset, group


@pytest.mark.slow
@pytest.mark.timeout(180 + 20 * KILLS)
def test_no_acknowledged_record_is_lost_duplicated_moved_or_reordered(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} KILLS={KILLS}")
    chance = random.Random(seed)
    broker = new_broker(log_segment_bytes="1048576").start()
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
    where = (broker.address, topic, PARTITIONS)
    writers: list[Writer] = [ConfluentWriter("ann", *where), PythonWriter("ben", *where)]
    readers = [ConfluentReader("cat", *where), PythonReader("dan", *where)]
    witness = Witness(broker, topic)
    for person in (*writers, *readers):
        person.start()

    for round_number in range(KILLS):
        witness.act(round_number)
        time.sleep(chance.uniform(0.2, 3.0))  # let the clients work until a random instant
        broker.kill()
        broker.start()
        witness.check()

    for writer in writers:
        writer.finish(PATIENCE_S * 2)
    auditor = ConfluentReader("eve", *where)
    with_ends = Consumer({"bootstrap.servers": broker.address, "group.id": f"{topic}-ends", "log_level": 0})
    ends = {
        p: with_ends.get_watermark_offsets(TopicPartition(topic, p), timeout=PATIENCE_S)[1] for p in range(PARTITIONS)
    }
    with_ends.close()
    auditor.start()
    for reader in (*readers, auditor):
        reader.ends = ends
        reader.finish(PATIENCE_S)

    history = History(log=dict(auditor.seen), seen={reader.name: reader.seen for reader in readers})
    for writer in writers:
        history.acked |= writer.acked
        history.unknown |= writer.unknown
        history.refused |= writer.refused
    assert all(len(writer.acked) > 100 * KILLS for writer in writers), {w.name: len(w.acked) for w in writers}
    assert len(history.log) == sum(ends.values())
    assert anomalies(history) == {}, f"SEED={seed}"
    assert not history.unknown | history.refused, f"{len(history.unknown)} records were given up by their producers"
    print(f"{len(history.acked)} records acknowledged, {len(history.unknown)} given up, {KILLS} kills")


@pytest.mark.slow
@pytest.mark.timeout(180 + 20 * KILLS)
def test_a_group_reads_everything_and_its_commits_never_go_back(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} KILLS={KILLS}")
    chance = random.Random(seed)
    broker = new_broker().start()
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": broker.address, "log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_S)
    where = (broker.address, topic, PARTITIONS)
    writer = ConfluentWriter("ann", *where)
    members = [GroupReader(name, *where, f"{topic}-group") for name in ("flo", "gus")]
    for person in (writer, *members):
        person.start()

    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    witness = Consumer({**settings, "group.id": f"{topic}-group"})
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.5, 3.0))  # let the clients work until a random instant
        promised = _furthest(members)
        broker.kill()
        broker.start()
        for place in witness.committed(places, timeout=PATIENCE_S):
            assert place.offset >= promised.get(place.partition, OFFSET_INVALID), f"SEED={seed}"

    writer.finish(PATIENCE_S * 2)
    wanted = set(writer.acked)
    give_up = time.monotonic() + PATIENCE_S
    while not wanted <= {sent for member in members for _, sent in list(member.seen)}:
        assert time.monotonic() < give_up, f"the group has not seen everything, SEED={seed}"
        time.sleep(0.2)
    for member in members:
        member.finish(PATIENCE_S)
    witness.close()
    assert all(member.committed for member in members), "with only one member this test would show nothing about groups"
    history = History(acked=writer.acked, unknown=writer.unknown)
    history.log = {place: sent for member in members for place, sent in member.seen}
    assert anomalies(history) == {}, f"SEED={seed}"
    print(f"{len(wanted)} records, {sum(len(member.seen) for member in members)} seen, {KILLS} kills")


def test_the_judge_notices_a_log_that_lost_its_end(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """The control: if the end of a log is cut off between two runs, the same clients must notice the loss."""
    broker = new_broker().start()
    where = (broker.address, topic, 1)
    writer = ConfluentWriter("ann", *where)
    writer.start()
    while len(writer.acked) < 500:
        time.sleep(0.01)
    writer.finish(PATIENCE_S)
    broker.kill()
    segment = broker.data / f"{topic}-0" / f"{0:020}.log"
    os.truncate(segment, segment.stat().st_size - 100)
    broker.start()
    auditor = ConfluentReader("eve", *where)
    auditor.ends = {0: 1}
    auditor.start()
    auditor.finish(PATIENCE_S)
    history = History(acked=writer.acked, unknown=writer.unknown, log=dict(auditor.seen))
    assert set(anomalies(history)) == {"lost"}


def _furthest(members: list[GroupReader]) -> dict[int, int]:
    """The highest confirmed commit of each partition."""
    furthest: dict[int, int] = {}
    for member in members:
        for partition, offset in list(member.committed):
            furthest[partition] = max(offset, furthest.get(partition, -1))
    return furthest
