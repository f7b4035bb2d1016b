"""What clients rely on, sent in raw bytes: order, ApiVersions, nulls, whole batches, long polls."""

from __future__ import annotations

import struct
import threading
from typing import Any

import pytest

from mqcore.wire.batches import read_headers
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.raw import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Gone,
    Wire,
    batched,
    fetch_request,
    framed,
    produce_request,
)
from tests.conformance.raw_helpers import API_VERSIONS, NO_TOPIC, name


def test_a_refused_produce_with_acks_0_closes_the_connection_after_earlier_answers(wire: Wire, topic: str) -> None:
    """Closing the connection is the only signal that such a client can get."""
    earlier = wire.send(API_VERSIONS, 0, b"")
    wire.produce(f"{topic}-that-is-not-there", acks=0)
    assert wire.receive()[0] == earlier
    assert wire.is_closed()


def test_many_clients_each_get_their_answers_in_order(broker: BrokerProcess, topic: str) -> None:
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


@pytest.mark.parametrize("version", range(5))
def test_api_versions_has_a_v0_response_head_in_every_version(wire: Wire, version: int) -> None:
    client = {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
    answer = wire.ask(API_VERSIONS, version, client)  # `Wire` expects a v0 head here
    assert answer.error_code == 0
    assert {entry.api_key for entry in answer.api_keys} >= {0, 1, 2, 3, 18}


def test_a_connection_stays_open_after_an_unknown_version_of_api_versions(broker: BrokerProcess) -> None:
    with Wire(broker.port) as connection:
        connection.socket.sendall(framed(API_VERSIONS, 99, 1, b"\x05test\x021\x00"))
        connection.expect(1, API_VERSIONS, 0)
        assert connection.receive()[1].error_code == 35
        assert connection.ask(API_VERSIONS, 0, b"").error_code == 0


def test_the_advertised_versions_are_those_of_one_kafka_release(broker: BrokerProcess) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    try:
        assert consumer.config["api_version"][:2] == (4, 2)
    finally:
        consumer.close()


def test_produce_0_to_2_are_refused_and_store_nothing(wire: Wire, topic: str) -> None:
    wire.create(topic)
    for version in range(3):
        assert name(wire.produce(topic, version=version).error_code) == "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    assert wire.end(topic) == 0


@pytest.mark.parametrize(("key", "version"), [(71, 0), (72, 0), (75, 9), (METADATA, 99), (9999, 0)])
def test_an_unsupported_api_or_version_closes_the_connection(broker: BrokerProcess, key: int, version: int) -> None:
    with Wire(broker.port) as connection:
        ranges = {entry.api_key: entry.max_version for entry in connection.ask(API_VERSIONS, 0, b"").api_keys}
        assert version > ranges.get(key, -1)
        connection.socket.sendall(struct.pack(">ihhih", 22, key, version, 1, -1) + bytes(12))
        with pytest.raises(Gone):
            connection.receive()


@pytest.mark.parametrize("version", range(4, 19))
def test_fetched_records_are_never_null_even_with_an_error(wire: Wire, topic: str, version: int) -> None:
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
def test_no_array_of_create_topics_is_null(wire: Wire, topic: str, version: int) -> None:
    request = {"topics": [{"name": topic, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}
    for error in ("NONE", "TOPIC_ALREADY_EXISTS"):
        (answer,) = wire.ask(CREATE_TOPICS, version, request).topics
        assert name(answer.error_code) == error
        assert version < 5 or answer.configs is not None


def test_no_array_of_describe_topic_partitions_is_null(wire: Wire, topic: str) -> None:
    wire.create(topic)
    answer = wire.ask(DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": topic}], "response_partition_limit": 10})
    (part,) = answer.topics[0].partitions
    for array in (part.eligible_leader_replicas, part.last_known_elr, part.offline_replicas, part.isr_nodes):
        assert array is not None


@pytest.mark.parametrize("limits", [(1, 1), (1 << 20, 1), (1, 1 << 20)])
def test_only_one_batch_may_exceed_the_limits_of_a_fetch(wire: Wire, topic: str, limits: tuple[int, int]) -> None:
    wire.create(topic)
    wire.produce(topic, batched(b"x" * 5000))
    wire.produce(topic, batched(b"y"))
    answer = wire.fetch(topic, max_bytes=limits[0], partition_max_bytes=limits[1])
    assert [header.base_offset for _, header in read_headers(answer.records)] == [0]


def test_only_the_first_partition_with_data_may_exceed_the_limit(wire: Wire, topic: str) -> None:
    wire.create(topic, 2)
    for partition in range(2):
        wire.produce(topic, batched(b"x" * 5000), partition=partition)
    request = fetch_request(topic, max_bytes=1)
    (first,) = request["topics"][0]["partitions"]
    request["topics"][0]["partitions"] = [first, {**first, "partition": 1}]
    parts = wire.ask(FETCH, 11, request).responses[0].partitions
    assert [len(part.records) > 0 for part in parts] == [True, False]


def test_an_empty_fetch_is_answered_after_its_wait_time(wire: Wire, topic: str) -> None:
    wire.create(topic)
    assert wire.fetch(topic, max_wait_ms=300).records == b""


def test_deleting_a_topic_answers_its_waiting_fetches(broker: BrokerProcess, wire: Wire, topic: str) -> None:
    wire.create(topic)
    with Wire(broker.port) as other:
        wire.send(FETCH, 11, fetch_request(topic, max_wait_ms=60_000))
        other.ask(METADATA, 1, {"topics": []})
        other.ask(DELETE_TOPICS, 3, {"topic_names": [topic], "timeout_ms": 1000})
        _, answer = wire.receive()
    assert name(answer.responses[0].partitions[0].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_fetch_sessions_are_declined_and_unknown_ones_refused(wire: Wire, topic: str) -> None:
    wire.create(topic)
    assert wire.ask(FETCH, 11, fetch_request(topic, session_epoch=0)).session_id == 0
    answer = wire.ask(FETCH, 11, fetch_request(topic, session_id=7, session_epoch=1))
    assert name(answer.error_code) == "FETCH_SESSION_ID_NOT_FOUND"
