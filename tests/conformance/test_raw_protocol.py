"""What clients rely on without saying so, asked in raw bytes: the pitfalls by their numbers, beyond test_pitfalls.py.

Said with the broker's own codecs (which other tests compare with two libraries'), on a connection without a library.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import Record, build_batch
from seckill.stack.broker import BrokerProcess, free_port
from tests.conformance.raw import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Gone,
    Wire,
    batched,
    fetch_request,
    framed,
    produce_request,
)

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
NO_TOPIC = UUID(int=1)


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    with Wire(broker.port) as connection:
        yield connection


def name(code: int) -> str:
    return ErrorCode(code).name


# ── 1. order, acks=0 ─────────────────────────────────────────────────────────────────────────────


def test_1_a_refused_acks_0_closes_the_connection_after_what_was_asked_before(wire: Wire, topic: str) -> None:
    """It is all that such a client can notice."""
    earlier = wire.send(API_VERSIONS, 0, b"")
    wire.produce(f"{topic}-that-is-not-there", acks=0)
    assert wire.receive()[0] == earlier
    assert wire.is_closed()


def test_1_many_clients_are_answered_each_in_its_own_order(broker: BrokerProcess, topic: str) -> None:
    with Wire(broker.port) as first:
        first.create(topic)
    wrong: list[tuple[list[int], list[int]]] = []

    def client() -> None:
        with Wire(broker.port) as wire:
            requests: list[tuple[int, int, dict[str, Any] | bytes]] = [
                (PRODUCE, 9, produce_request(topic)),
                (API_VERSIONS, 0, b""),
                (METADATA, 1, {"topics": []}),
            ]
            sent = [wire.send(*requests[number % 3]) for number in range(60)]
            received = [wire.receive()[0] for _ in sent]
            if received != sent:
                wrong.append((sent, received))

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong


# ── 2. ApiVersions ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", range(5))
def test_2_api_versions_answers_with_a_v0_head_in_every_version(wire: Wire, version: int) -> None:
    client = {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
    answer = wire.ask(API_VERSIONS, version, client)  # `Wire` reads a v0 head here
    assert answer.error_code == 0
    assert {entry.api_key for entry in answer.api_keys} >= {0, 1, 2, 3, 18}


def test_2_a_connection_goes_on_after_an_unknown_version_of_api_versions(broker: BrokerProcess) -> None:
    with Wire(broker.port) as connection:
        connection.socket.sendall(framed(API_VERSIONS, 99, 1, b"\x05test\x021\x00"))
        connection.expect(1, API_VERSIONS, 0)
        assert connection.receive()[1].error_code == 35
        assert connection.ask(API_VERSIONS, 0, b"").error_code == 0


def test_the_table_of_versions_looks_like_one_kafka_release(broker: BrokerProcess) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    try:
        assert consumer.config["api_version"][:2] == (4, 2)
    finally:
        consumer.close()


def test_produce_0_to_2_are_refused_and_keep_nothing(wire: Wire, topic: str) -> None:
    wire.create(topic)
    for version in range(3):
        assert name(wire.produce(topic, version=version).error_code) == "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    assert wire.end(topic) == 0


@pytest.mark.parametrize(("key", "version"), [(71, 0), (72, 0), (75, 9), (METADATA, 99), (9999, 0)])
def test_what_is_not_served_closes_the_connection(broker: BrokerProcess, key: int, version: int) -> None:
    with Wire(broker.port) as connection:
        ranges = {entry.api_key: entry.max_version for entry in connection.ask(API_VERSIONS, 0, b"").api_keys}
        assert version > ranges.get(key, -1)
        connection.socket.sendall(struct.pack(">ihhih", 22, key, version, 1, -1) + bytes(12))
        with pytest.raises(Gone):
            connection.receive()


# ── 3. nulls ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", range(4, 19))
def test_3_fetched_records_are_never_null_errors_included(wire: Wire, topic: str, version: int) -> None:
    made = wire.create(topic)
    request = fetch_request(topic)
    (wanted,) = request["topics"][0]["partitions"]
    request["topics"].append({"topic": f"{topic}-absent", "partitions": [wanted]})
    request["topics"].append({"topic": topic, "partitions": [{**wanted, "fetch_offset": 99}]})
    if version >= 13:
        for entry in request["topics"]:
            entry["topic_id"] = made.topic_id if entry.pop("topic") == topic else NO_TOPIC
    answer = wire.ask(FETCH, version, request)
    parts = [part for response in answer.responses for part in response.partitions]
    assert [part.error_code != 0 for part in parts] == [False, True, True]
    assert all(part.records is not None for part in parts)


@pytest.mark.parametrize("version", range(2, 8))
def test_3_no_array_of_create_topics_is_null(wire: Wire, topic: str, version: int) -> None:
    request = {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}
    for error in ("NONE", "TOPIC_ALREADY_EXISTS"):
        (answer,) = wire.ask(CREATE_TOPICS, version, request).topics
        assert name(answer.error_code) == error
        assert version < 5 or answer.configs is not None


def test_3_no_array_of_describe_topic_partitions_is_null(wire: Wire, topic: str) -> None:
    wire.create(topic)
    answer = wire.ask(DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": topic}], "response_partition_limit": 10})
    (part,) = answer.topics[0].partitions
    for array in (part.eligible_leader_replicas, part.last_known_elr, part.offline_replicas, part.isr_nodes):
        assert array is not None


# ── 4. whole batches ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limits", [(1, 1), (1 << 20, 1), (1, 1 << 20)])
def test_4_one_batch_and_no_more_is_returned_beyond_any_limit(wire: Wire, topic: str, limits: tuple[int, int]) -> None:
    wire.create(topic)
    wire.produce(topic, batched(b"x" * 5000))
    wire.produce(topic, batched(b"y"))
    answer = wire.fetch(topic, max_bytes=limits[0], partition_max_bytes=limits[1])
    assert [header.base_offset for _, header in read_headers(answer.records)] == [0]


def test_4_of_several_partitions_only_the_first_with_data_may_exceed_the_limit(wire: Wire, topic: str) -> None:
    wire.create(topic, 2)
    for partition in range(2):
        wire.produce(topic, batched(b"x" * 5000), partition=partition)
    request = fetch_request(topic, max_bytes=1)
    (first,) = request["topics"][0]["partitions"]
    request["topics"][0]["partitions"] = [first, {**first, "partition": 1}]
    parts = wire.ask(FETCH, 11, request).responses[0].partitions
    assert [len(part.records) > 0 for part in parts] == [True, False]


# ── 5. long poll ─────────────────────────────────────────────────────────────────────────────────


def test_5_an_empty_fetch_waits_as_long_as_it_said_and_no_longer(wire: Wire, topic: str) -> None:
    wire.create(topic)
    began = time.monotonic()
    assert wire.fetch(topic, max_wait_ms=300).records == b""
    assert 0.29 <= time.monotonic() - began < 10


def test_5_a_topic_deleted_under_a_parked_fetch_answers_it(broker: BrokerProcess, wire: Wire, topic: str) -> None:
    wire.create(topic)
    with Wire(broker.port) as other:
        began = time.monotonic()
        wire.send(FETCH, 11, fetch_request(topic, max_wait_ms=60_000))
        other.ask(METADATA, 1, {"topics": []})
        other.ask(DELETE_TOPICS, 3, {"topic_names": [topic], "timeout_ms": 1000})
        _, answer = wire.receive()
    assert name(answer.responses[0].partitions[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert time.monotonic() - began < 20


def test_5_fetch_sessions_are_declined_and_unknown_ones_refused(wire: Wire, topic: str) -> None:
    wire.create(topic)
    assert wire.ask(FETCH, 11, fetch_request(topic, session_epoch=0)).session_id == 0
    answer = wire.ask(FETCH, 11, fetch_request(topic, session_id=7, session_epoch=1))
    assert name(answer.error_code) == "FETCH_SESSION_ID_NOT_FOUND"


# ── 6. idempotence ───────────────────────────────────────────────────────────────────────────────


def producer_id(wire: Wire, transactional_id: str | None = None) -> tuple[str, int]:
    request = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    answer = wire.ask(INIT_PRODUCER_ID, 4, request)
    return name(answer.error_code), int(answer.producer_id)


def test_6_producer_ids_are_given_once_also_by_the_next_process(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    given = []
    for _ in range(3):
        with Wire(broker.port) as wire:
            given += [producer_id(wire) for _ in range(5)]
        broker.kill()
        broker.start()
    assert len(set(given)) == 15 and {error for error, _ in given} == {"NONE"}


def test_6_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero(wire: Wire, topic: str) -> None:
    wire.create(topic)
    _, producer = producer_id(wire)

    def produce(epoch: int, sequence: int) -> str:
        return name(wire.produce(topic, batched(b"v", producer=producer, epoch=epoch, sequence=sequence)).error_code)

    assert produce(1, 0) == "NONE"
    assert produce(0, 1) == "INVALID_PRODUCER_EPOCH"
    assert produce(2, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(2, 0) == "NONE"


def test_6_a_retry_after_a_kill_is_still_a_duplicate(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """S21 with one replica: the answer was lost with the process."""
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


def test_6_a_producer_whose_state_has_expired_is_not_out_of_order(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = new_broker(producer_id_expiration_ms="1", log_retention_check_interval_ms="50").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        _, producer = producer_id(wire)
        assert wire.produce(topic, batched(b"a", producer=producer, sequence=0)).error_code == 0
        give_up = time.monotonic() + 20
        while (error := name(wire.produce(topic, batched(b"c", producer=producer, sequence=2)).error_code)) != "NONE":
            assert error == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # it is still remembered
            assert time.monotonic() < give_up
            time.sleep(0.05)


# ── 7. transactions ──────────────────────────────────────────────────────────────────────────────


def test_7_a_transactional_producer_is_refused_for_good(wire: Wire) -> None:
    assert producer_id(wire, "mine") == ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", -1)
    found = wire.ask(FIND_COORDINATOR, 2, {"key": "mine", "key_type": 1})
    assert found.error_code == 0  # or it would never get so far


def test_7_a_transactional_batch_is_not_stored_as_an_ordinary_one(wire: Wire, topic: str) -> None:
    wire.create(topic)
    batch = batched(b"a", producer=5)
    struct.pack_into(">h", batch, 21, 0x10)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    assert name(wire.produce(topic, batch).error_code) == "INVALID_TXN_STATE"
    assert wire.end(topic) == 0


def test_7_read_committed_reads_up_to_the_high_watermark(wire: Wire, topic: str) -> None:
    wire.create(topic)
    wire.produce(topic)
    answer = wire.fetch(topic, isolation=1)
    assert answer.last_stable_offset == answer.high_watermark == 1
    assert answer.aborted_transactions == []  # never null, for Java iterates over it here
    wanted = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    listed = wire.ask(LIST_OFFSETS, 5, {"replica_id": -1, "isolation_level": 1, "topics": wanted})
    assert listed.topics[0].partitions[0].offset == 1


# ── 9. addresses, commits, topics ────────────────────────────────────────────────────────────────


def test_9_each_listener_is_told_its_own_address_everywhere(new_broker: Callable[..., BrokerProcess]) -> None:
    broker, outside = new_broker(), free_port()
    broker.settings["listeners"] = f"INSIDE://127.0.0.1:{broker.port},OUTSIDE://127.0.0.1:{outside}"
    broker.settings["advertised.listeners"] = "INSIDE://inside.test:1111,OUTSIDE://outside.test:2222"
    broker.start()
    for port, address in ((broker.port, ("inside.test", 1111)), (outside, ("outside.test", 2222))):
        with Wire(port) as wire:
            (node,) = wire.ask(METADATA, 9, {"topics": []}).brokers
            single = wire.ask(FIND_COORDINATOR, 2, {"key": "g", "key_type": 0})
            (one,) = wire.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]}).coordinators
            assert [(found.host, found.port) for found in (node, single, one)] == [address] * 3


def test_9_a_broker_that_must_not_make_topics_does_not(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    with Wire(new_broker(auto_create_topics_enable="false").start().port) as wire:
        (absent,) = wire.ask(METADATA, 1, {"topics": [{"name": topic}]}).topics
        assert name(absent.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


def commit(wire: Wire, group: str, topic: str, text: str | None) -> str:
    wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
    parts = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": text}]
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": parts}],
    }
    return name(wire.ask(OFFSET_COMMIT, 7, request).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("text", ["", "späť → 二", "x" * 4096])
def test_9_the_text_of_a_commit_comes_back_as_it_was(wire: Wire, topic: str, group: str, text: str) -> None:
    wire.create(topic)
    assert commit(wire, group, topic, text) == "NONE"
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    (found,) = wire.ask(OFFSET_FETCH, 5, asked).topics[0].partitions
    assert (found.committed_offset, found.metadata) == (5, text)


def test_9_a_commit_with_too_long_a_text_is_refused(wire: Wire, topic: str, group: str) -> None:
    wire.create(topic)
    assert commit(wire, group, topic, "x" * 4097) == "OFFSET_METADATA_TOO_LARGE"


def test_9_max_message_bytes_is_enforced(wire: Wire, topic: str) -> None:
    wire.create(topic, max_message_bytes="1000")
    assert name(wire.produce(topic, batched(b"x" * 2000)).error_code) == "MESSAGE_TOO_LARGE"
    assert wire.produce(topic, batched(b"x" * 500)).error_code == 0


def test_9_a_record_without_a_key_is_refused_where_it_could_never_be_compacted(wire: Wire, topic: str) -> None:
    wire.create(topic, cleanup_policy="compact")
    assert name(wire.produce(topic, batched(b"v")).error_code) == "INVALID_RECORD"
    assert wire.produce(topic, batched(b"v", key=b"k")).error_code == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_9_exactly_the_records_without_a_key_are_named(wire: Wire, topic: str, codec: int) -> None:
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


def test_5_a_full_answer_does_not_wait_for_more_bytes_than_it_may_hold(wire: Wire, topic: str) -> None:
    wire.create(topic)
    for _ in range(20):
        wire.produce(topic, batched(bytes(1000)))
    wire.socket.settimeout(10)
    request = fetch_request(topic, max_wait_ms=60_000, min_bytes=1 << 20, max_bytes=5000)
    assert wire.ask(FETCH, 11, request).responses[0].partitions[0].records


def test_9_describe_configs_is_complete(wire: Wire, topic: str) -> None:
    wire.create(topic, retention_ms="5000")
    asked = {
        "resources": [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": True,
    }
    (found,) = wire.ask(DESCRIBE_CONFIGS, 4, asked).results
    configs = {config.name: config for config in found.configs}
    assert len(configs) >= 25
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
    assert all(config.documentation and config.config_type for config in configs.values())
    assert configs["retention.ms"].synonyms[0].source == 1


def test_9_a_topic_made_again_has_a_new_id_and_the_old_one_is_unknown(wire: Wire, topic: str) -> None:
    old = wire.create(topic).topic_id
    wire.produce(topic)
    (gone,) = wire.ask(DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": old}], "timeout_ms": 1000}).responses
    assert gone.error_code == 0
    assert wire.create(topic).topic_id != old
    assert wire.end(topic) == 0
    (partition,) = fetch_request(topic)["topics"][0]["partitions"]
    fetch = {**fetch_request(topic), "topics": [{"topic_id": old, "partitions": [partition]}]}
    (part,) = wire.ask(FETCH, 13, fetch).responses[0].partitions
    assert name(part.error_code) == "UNKNOWN_TOPIC_ID"
    data = produce_request(topic)["topic_data"][0]["partition_data"]
    produce = {**produce_request(topic), "topic_data": [{"topic_id": old, "partition_data": data}]}
    (part,) = wire.ask(PRODUCE, 13, produce).responses[0].partition_responses
    assert name(part.error_code) == "UNKNOWN_TOPIC_ID"


# ── 10. SASL ─────────────────────────────────────────────────────────────────────────────────────


def test_10_sasl_on_a_listener_without_it_is_refused_and_the_connection_goes_on(wire: Wire) -> None:
    assert name(wire.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code) == "ILLEGAL_SASL_STATE"
    assert name(wire.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": b""}).error_code) == "ILLEGAL_SASL_STATE"
    assert wire.ask(API_VERSIONS, 0, b"").error_code == 0


# ── 11. bombs; see also test_limits.py ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_11_a_decompression_bomb_is_stored_as_it_came(wire: Wire, topic: str, codec: int) -> None:
    wire.create(topic, max_message_bytes="5000000")
    bomb = batched(bytes(64 << 20), codec=codec)
    assert wire.produce(topic, bomb).error_code == 0
    found = wire.fetch(topic, max_bytes=10_000_000, partition_max_bytes=10_000_000).records
    assert found[61:] == bytes(bomb[61:])
