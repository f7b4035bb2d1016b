"""confluent-kafka (librdkafka): producers, consumers and groups."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    OffsetSpec,
)

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.confluent_clients import PATIENCE_S, consumer, create, produce, read, until


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_delivered_unchanged(broker: BrokerProcess, topic: str, group: str, codec: str, acks: str) -> None:
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


def test_an_acknowledgement_has_partition_and_offset(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, partitions=3)
    told = produce(broker, topic, [{"value": b"x", "partition": i % 3} for i in range(30)], acks="all")
    by_partition = defaultdict(list)
    for message in told:
        by_partition[message.partition()].append(message.offset())
    assert by_partition == {partition: list(range(10)) for partition in range(3)}


def test_an_idempotent_producer_keeps_the_order_with_five_requests_in_flight(broker: BrokerProcess, topic: str) -> None:
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


def test_log_append_time_is_the_time_of_the_broker(broker: BrokerProcess, topic: str, group: str) -> None:
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


def test_a_cooperative_group_revokes_only_partitions_that_move(broker: BrokerProcess, topic: str, group: str) -> None:
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


def test_a_static_member_regains_its_partitions_without_a_rebalance(
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


def test_offsets_are_found_by_time_and_at_both_ends_of_the_log(broker: BrokerProcess, topic: str, group: str) -> None:
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


def test_producing_to_a_missing_topic_creates_it(broker: BrokerProcess, topic: str) -> None:
    assert produce(broker, topic, [{"value": b"x"}])[0].offset() == 0


def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_written(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create(broker, topic)
    with consumer(broker, group, fetch_wait_max_ms=50_000) as source:
        source.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        produce(broker, topic, [{"value": b"first"}])
        read(source, 1)
        for _ in range(5):
            assert source.poll(0.05) is None  # a fetch now waits at the broker
            produce(broker, topic, [{"value": b"next"}], linger_ms=0)
            read(source, 1)  # raises after 30 s, before the long poll would end


def test_a_transactional_producer_is_refused_at_once(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    assert refused.value.args[0].code() != KafkaError._TIMED_OUT
