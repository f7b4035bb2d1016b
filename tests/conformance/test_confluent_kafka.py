"""confluent-kafka (librdkafka): journeys of producers, consumers, groups and administrators."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from seckill.stack.broker import BrokerProcess

PATIENCE_S = 30.0


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.address})
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(PATIENCE_S)
    return admin


def produce(broker: BrokerProcess, topic: str, records: list[dict[str, Any]], **settings: Any) -> list[Message]:
    """Send all, and give what was told about each, in the order of telling."""
    told: list[Message] = []
    failed: list[KafkaError] = []

    def heard(error: KafkaError | None, message: Message) -> None:
        told.append(message) if error is None else failed.append(error)

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5, **dotted(settings)})
    for record in records:
        producer.produce(topic, on_delivery=heard, **record)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed, failed[0]
    return told


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


@contextmanager
def consumer(broker: BrokerProcess, group: str, **settings: Any) -> Iterator[Consumer]:
    named = {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        **dotted(settings),
    }
    opened = Consumer(named)
    try:
        yield opened
    finally:
        opened.close()


def read(source: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    give_up = time.monotonic() + PATIENCE_S
    while len(found) < count:
        message = source.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
        assert time.monotonic() < give_up, f"{len(found)} of {count} records after {PATIENCE_S:.0f} s"
    return found


def until(what: Callable[[], bool], *sources: Consumer) -> None:
    """Poll the consumers until it is so; they must get nothing meanwhile that the test would miss."""
    give_up = time.monotonic() + PATIENCE_S
    while not what():
        for source in sources:
            message = source.poll(0.05)
            assert message is None or message.error() is None
        assert time.monotonic() < give_up, "waited in vain"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_come_back_as_they_were_sent(
    broker: BrokerProcess, topic: str, group: str, codec: str, acks: str
) -> None:
    create(broker, topic)
    sent: list[dict[str, Any]] = [
        {
            "key": b"k%d" % i,
            "value": b"value %d " % i * 20,
            "headers": [("a", b"1"), ("n", None)],
            "timestamp": 1000 + i,
        }
        for i in range(300)
    ]
    sent += [{"key": None, "value": b""}, {"key": b"", "value": None}]
    produce(broker, topic, sent, compression_type=codec, acks=acks)
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        got = read(source, len(sent))
    assert [m.offset() for m in got] == list(range(len(sent)))
    assert [(m.key(), m.value()) for m in got] == [(s["key"], s["value"]) for s in sent]
    assert got[7].headers() == [("a", b"1"), ("n", None)]
    assert got[7].timestamp() == (TIMESTAMP_CREATE_TIME, 1007)


def test_an_acknowledgement_tells_partition_and_offset(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, partitions=3)
    told = produce(broker, topic, [{"value": b"x", "partition": i % 3} for i in range(30)], acks="all")
    by_partition = defaultdict(list)
    for message in told:
        by_partition[message.partition()].append(message.offset())
    assert by_partition == {partition: list(range(10)) for partition in range(3)}


def test_an_idempotent_producer_writes_in_order_with_five_requests_in_flight(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic)
    told = produce(
        broker,
        topic,
        [{"value": b"%d" % i} for i in range(5000)],
        enable_idempotence=True,
        linger_ms=0,
        batch_num_messages=50,
    )
    assert sorted(m.offset() or 0 for m in told) == list(range(5000))
    with consumer(broker, "of-" + topic) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [m.value() for m in read(source, 5000)] == [b"%d" % i for i in range(5000)]


def test_log_append_time_is_the_brokers(broker: BrokerProcess, topic: str, group: str) -> None:
    create(broker, topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    produce(broker, topic, [{"value": b"x", "timestamp": 5}])
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        kind, at = read(source, 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before - 1000 <= at <= time.time() * 1000 + 1000


def test_a_group_shares_the_partitions_and_reads_everything_once(broker: BrokerProcess, topic: str, group: str) -> None:
    create(broker, topic, partitions=4)
    with consumer(broker, group) as first, consumer(broker, group) as second:
        first.subscribe([topic])
        second.subscribe([topic])
        until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
        produce(broker, topic, [{"value": b"%d" % i, "partition": i % 4} for i in range(400)])
        got = read(first, 200) + read(second, 200)
        assert {m.value() for m in got} == {b"%d" % i for i in range(400)}
        first.commit(asynchronous=False)
        second.commit(asynchronous=False)
    with consumer(broker, group) as third:
        third.subscribe([topic])
        until(lambda: len(third.assignment()) == 4, third)
        committed = third.committed([TopicPartition(topic, p) for p in range(4)], timeout=PATIENCE_S)
        assert [p.offset for p in committed] == [100] * 4
        produce(broker, topic, [{"value": b"new", "partition": 2}])
        assert [(m.partition(), m.offset()) for m in read(third, 1)] == [(2, 100)]


def test_a_cooperative_group_takes_only_what_it_gives_to_the_newcomer(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create(broker, topic, partitions=4)
    revoked: list[int] = []
    lost: list[int] = []
    settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
    with consumer(broker, group, **settings) as first, consumer(broker, group, **settings) as second:
        first.subscribe(
            [topic],
            on_revoke=lambda _, gone: revoked.extend(p.partition for p in gone),
            on_lost=lambda _, gone: lost.extend(p.partition for p in gone),
        )
        until(lambda: len(first.assignment()) == 4, first)
        second.subscribe([topic])
        until(lambda: len(first.assignment()) == 2 and len(second.assignment()) == 2, first, second)
        assert len(revoked) == 2
        assert not lost
        assert {p.partition for p in first.assignment() + second.assignment()} == {0, 1, 2, 3}


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create(broker, topic, partitions=2)
    rebalances: list[str] = []
    with consumer(broker, group, group_instance_id="stays") as stays:
        stays.subscribe([topic], on_revoke=lambda *_: rebalances.append("revoked"))
        with consumer(broker, group, group_instance_id="returns") as returns:
            returns.subscribe([topic])
            until(lambda: len(stays.assignment()) == len(returns.assignment()) == 1, stays, returns)
            before = (stays.assignment(), returns.assignment())
            rebalances.clear()
        with consumer(broker, group, group_instance_id="returns") as again:
            again.subscribe([topic])
            until(lambda: len(again.assignment()) == 1, stays, again)
            assert (stays.assignment(), again.assignment()) == before
        assert not rebalances


def test_offsets_are_found_by_time_and_at_both_ends(broker: BrokerProcess, topic: str, group: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"x", "timestamp": 10_000 + 10 * i} for i in range(50)])
    with consumer(broker, group) as source:
        assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S) == (0, 50)
        for wanted, expected in ((0, 0), (10_000, 0), (10_101, 11), (10_490, 49), (10_491, -1)):
            (found,) = source.offsets_for_times([TopicPartition(topic, 0, wanted)], timeout=PATIENCE_S)
            assert found.offset == expected, wanted
    place = TopicPartition(topic, 0)
    newest = admin.list_offsets({place: OffsetSpec.max_timestamp()})[place].result(PATIENCE_S)
    assert (newest.offset, newest.timestamp) == (49, 10_490)


def test_an_administrator_makes_changes_and_removes_a_topic(broker: BrokerProcess, topic: str) -> None:
    admin = create(broker, topic, partitions=2, retention_ms="60000")
    description = admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S)
    assert len(description.partitions) == 2
    assert str(description.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    assert len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == 5
    with pytest.raises(KafkaException) as shrunk:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert shrunk.value.args[0].code() == KafkaError.INVALID_PARTITIONS

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(PATIENCE_S)["retention.ms"].value == "60000"
    resource.add_incremental_config(ConfigEntry("retention.ms", "70000", incremental_operation=AlterConfigOpType.SET))
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    now = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert now["retention.ms"].value == "70000"
    assert set(now["cleanup.policy"].value.split(",")) == {"compact", "delete"}
    assert now["segment.bytes"].is_default

    with pytest.raises(KafkaException) as twice:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    assert twice.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_created_again_is_another_topic(broker: BrokerProcess, topic: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"old"}] * 3)
    old = admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S).topic_id
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    admin = create(broker, topic)
    assert str(admin.describe_topics(_topics(topic))[topic].result(PATIENCE_S).topic_id) != str(old)
    assert produce(broker, topic, [{"value": b"new"}])[0].offset() == 0


def test_deleted_records_are_gone_for_readers(broker: BrokerProcess, topic: str, group: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"%d" % i} for i in range(20)], batch_num_messages=1)
    place = TopicPartition(topic, 0, 12)
    assert admin.delete_records([place])[place].result(PATIENCE_S).low_watermark == 12
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [m.offset() for m in read(source, 8)] == list(range(12, 20))


def test_groups_are_listed_described_reset_and_deleted(broker: BrokerProcess, topic: str, group: str) -> None:
    admin = create(broker, topic)
    produce(broker, topic, [{"value": b"x"}] * 10)
    with consumer(broker, group) as source:
        source.subscribe([topic])
        read(source, 10)
        source.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert described.state.name == "STABLE"
        assert [m.assignment.topic_partitions for m in described.members] == [[TopicPartition(topic, 0)]]
        with pytest.raises(KafkaException) as busy:
            admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
        assert busy.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    assert group in {listed.group_id for listed in admin.list_consumer_groups().result(PATIENCE_S).valid}
    new = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([new])[group].result(PATIENCE_S)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    told = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S)
    assert [p.offset for p in told.topic_partitions] == [4]
    with consumer(broker, group) as source:
        source.subscribe([topic])
        assert [m.offset() for m in read(source, 6)] == list(range(4, 10))
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in {listed.group_id for listed in admin.list_consumer_groups().result(PATIENCE_S).valid}


def test_commit_metadata_comes_back(broker: BrokerProcess, topic: str, group: str) -> None:
    create(broker, topic)
    with consumer(broker, group) as source:
        source.assign([TopicPartition(topic, 0)])
        source.commit(offsets=[TopicPartition(topic, 0, 3, "a note — ü")], asynchronous=False)
        (found,) = source.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    assert (found.offset, found.metadata) == (3, "a note — ü")


def test_a_record_larger_than_the_topic_allows_is_refused(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, max_message_bytes="10000")
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.address})
    for size in (20_000, 100):
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(PATIENCE_S) == 0
    assert [error and error.code() for error in told] == [KafkaError.MSG_SIZE_TOO_LARGE, None]


def test_a_keyless_record_is_refused_by_a_compacted_topic(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, cleanup_policy="compact")
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [error and error.code() for error in told] == [KafkaError.INVALID_RECORD]


def test_producing_to_a_topic_nobody_made_makes_it(broker: BrokerProcess, topic: str) -> None:
    assert produce(broker, topic, [{"value": b"x"}])[0].offset() == 0


def test_a_reader_at_the_end_gets_a_record_as_soon_as_it_is_written(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create(broker, topic)
    with consumer(broker, group, fetch_wait_max_ms=10_000) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        produce(broker, topic, [{"value": b"first"}])
        read(source, 1)
        delays = []
        for _ in range(5):
            assert source.poll(0.05) is None  # now a fetch waits at the broker
            began = time.monotonic()
            produce(broker, topic, [{"value": b"next"}], linger_ms=0)
            read(source, 1)
            delays.append(time.monotonic() - began)
    assert min(delays) < 2.0, delays  # not the ten seconds of the long poll


def test_a_transactional_producer_is_refused_at_once(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    assert refused.value.args[0].code() != KafkaError._TIMED_OUT


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))
