"""What clients rely on, sent in raw bytes: idempotent producers, refused transactions and batches."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from crc32c import crc32c

from mqcore.wire.records import Record, build_batch
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    Wire,
    batched,
)
from tests.conformance.raw_helpers import name


def producer_id(wire: Wire, transactional_id: str | None = None) -> tuple[str, int]:
    request = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    answer = wire.ask(INIT_PRODUCER_ID, 4, request)
    return name(answer.error_code), int(answer.producer_id)


def test_producer_ids_are_unique_across_restarts(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    given = []
    for _ in range(3):
        with Wire(broker.port) as wire:
            given += [producer_id(wire) for _ in range(5)]
        broker.kill()
        broker.start()
    assert len(set(given)) == 15 and {error for error, _ in given} == {"NONE"}


def test_an_old_producer_epoch_is_fenced_and_a_new_one_begins_at_zero(wire: Wire, topic: str) -> None:
    wire.create(topic)
    _, producer = producer_id(wire)

    def produce(epoch: int, sequence: int) -> str:
        return name(wire.produce(topic, batched(b"v", producer=producer, epoch=epoch, sequence=sequence)).error_code)

    assert produce(1, 0) == "NONE"
    assert produce(0, 1) == "INVALID_PRODUCER_EPOCH"
    assert produce(2, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(2, 0) == "NONE"


def test_a_retry_after_a_kill_is_still_a_duplicate(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """The batch was stored, but its answer was lost with the process."""
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        _, producer = producer_id(wire)
        for sequence in range(3):
            wire.produce(topic, batched(b"v", producer=producer, sequence=sequence))
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        again = wire.produce(topic, batched(b"v", producer=producer, sequence=2))
        assert (name(again.error_code), again.base_offset) == ("NONE", 2)
        assert wire.end(topic) == 3


def test_a_producer_whose_state_has_expired_may_continue(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker(producer_id_expiration_ms="1", log_retention_check_interval_ms="50").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        _, producer = producer_id(wire)
        assert wire.produce(topic, batched(b"a", producer=producer, sequence=0)).error_code == 0
        give_up = time.monotonic() + 20
        while (error := name(wire.produce(topic, batched(b"c", producer=producer, sequence=2)).error_code)) != "NONE":
            assert error == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # its state has not expired yet
            assert time.monotonic() < give_up
            time.sleep(0.05)


def test_a_transactional_producer_is_refused_with_a_final_error(wire: Wire) -> None:
    assert producer_id(wire, "mine") == ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", -1)
    found = wire.ask(FIND_COORDINATOR, 2, {"key": "mine", "key_type": 1})
    assert found.error_code == 0  # otherwise the client would not get to InitProducerId


def test_a_transactional_batch_is_refused(wire: Wire, topic: str) -> None:
    wire.create(topic)
    batch = batched(b"a", producer=5)
    struct.pack_into(">h", batch, 21, 0x10)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    assert name(wire.produce(topic, batch).error_code) == "INVALID_TXN_STATE"
    assert wire.end(topic) == 0


def test_read_committed_reads_up_to_the_high_watermark(wire: Wire, topic: str) -> None:
    wire.create(topic)
    wire.produce(topic)
    answer = wire.fetch(topic, isolation=1)
    assert answer.last_stable_offset == answer.high_watermark == 1
    assert answer.aborted_transactions == []  # never null, because Java's client iterates over it
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    listed = wire.ask(LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 1, "topics": wanted})
    assert listed.topics[0].partitions[0].offset == 1


def test_max_message_bytes_is_enforced(wire: Wire, topic: str) -> None:
    wire.create(topic, max_message_bytes="1000")
    assert name(wire.produce(topic, batched(b"x" * 2000)).error_code) == "MESSAGE_TOO_LARGE"
    assert wire.produce(topic, batched(b"x" * 500)).error_code == 0


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(wire: Wire, topic: str) -> None:
    wire.create(topic, cleanup_policy="compact")
    assert name(wire.produce(topic, batched(b"v")).error_code) == "INVALID_RECORD"
    assert wire.produce(topic, batched(b"v", key=b"k")).error_code == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_the_error_names_exactly_the_records_without_a_key(wire: Wire, topic: str, codec: int) -> None:
    wire.create(topic, cleanup_policy="compact")
    now = int(time.time() * 1000)
    keys = [b"a", None, b"b", None, b"c"]
    batch = build_batch([Record(at, now, key, b"v") for at, key in enumerate(keys)], codec=codec)
    for version in (8, 9):
        answer = wire.produce(topic, batch, version=version)
        assert name(answer.error_code) == "INVALID_RECORD"
        assert [error.batch_index for error in answer.record_errors] == [1, 3]
        assert all("without key" in error.batch_index_error_message for error in answer.record_errors)
    assert wire.end(topic) == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_stored_without_being_decompressed(wire: Wire, topic: str, codec: int) -> None:
    wire.create(topic, max_message_bytes="5000000")
    bomb = batched(bytes(64 << 20), codec=codec)
    assert wire.produce(topic, bomb).error_code == 0
    found = wire.fetch(topic, max_bytes=10_000_000, partition_max_bytes=10_000_000).records
    assert found[61:] == bytes(bomb[61:])
