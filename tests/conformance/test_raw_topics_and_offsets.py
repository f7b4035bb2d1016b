"""What clients rely on, sent in raw bytes: addresses, topics, settings, committed offsets, SASL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.raw import (
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FETCH,
    FIND_COORDINATOR,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Wire,
    batched,
    fetch_request,
    produce_request,
)
from tests.conformance.raw_helpers import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, name


def test_each_listener_has_its_own_address_in_every_response(new_broker: Callable[..., BrokerProcess]) -> None:
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


def test_auto_create_topics_can_be_disabled(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
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
def test_the_metadata_of_a_commit_is_returned_unchanged(wire: Wire, topic: str, group: str, text: str) -> None:
    wire.create(topic)
    assert commit(wire, group, topic, text) == "NONE"
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    (found,) = wire.ask(OFFSET_FETCH, 5, asked).topics[0].partitions
    assert (found.committed_offset, found.metadata) == (5, text)


def test_a_commit_with_too_much_metadata_is_refused(wire: Wire, topic: str, group: str) -> None:
    wire.create(topic)
    assert commit(wire, group, topic, "x" * 4097) == "OFFSET_METADATA_TOO_LARGE"


def test_a_full_fetch_response_does_not_wait_for_min_bytes(wire: Wire, topic: str) -> None:
    wire.create(topic)
    for _ in range(20):
        wire.produce(topic, batched(bytes(1000)))
    wire.socket.settimeout(10)
    request = fetch_request(topic, max_wait_ms=60_000, min_bytes=1 << 20, max_bytes=5000)
    assert wire.ask(FETCH, 11, request).responses[0].partitions[0].records


def test_describe_configs_is_complete(wire: Wire, topic: str) -> None:
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


def test_a_recreated_topic_has_a_new_id_and_the_old_one_is_unknown(wire: Wire, topic: str) -> None:
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


def test_sasl_on_a_plaintext_listener_is_refused_and_the_connection_stays_open(wire: Wire) -> None:
    assert name(wire.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}).error_code) == "ILLEGAL_SASL_STATE"
    assert name(wire.ask(SASL_AUTHENTICATE, 2, {"auth_bytes": b""}).error_code) == "ILLEGAL_SASL_STATE"
    assert wire.ask(API_VERSIONS, 0, b"").error_code == 0
