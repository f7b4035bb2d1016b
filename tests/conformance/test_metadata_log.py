"""Our metadata log, decoded by Kafka's own decoder for metadata records."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
from kafka.producer import KafkaProducer

from loadtest.kafka_jars import java
from mqcore.controller.facts import BrokerChanged, FeatureLevelSet, PartitionChanged
from mqcore.controller.records import encode
from mqcore.wire.records import Record, build_batch
from seckill.stack.broker_process import BrokerProcess
from tests.unit.mqcore.controller.test_snapshot import HISTORY

pytestmark = pytest.mark.needs("java", "mvn")

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def dumped(broker: BrokerProcess) -> list[dict[str, Any]]:
    """Every record as Kafka decodes it."""
    return decoded_by_kafka(broker.data / "__cluster_metadata-0" / f"{0:020}.log")


def decoded_by_kafka(log: Path) -> list[dict[str, Any]]:
    command = java(DUMP, "--cluster-metadata-decoder", "--files", log)
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "isvalid: false" not in result.stdout
    return [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", result.stdout, re.MULTILINE)]


def test_kafka_reads_every_kind_of_metadata_record(tmp_path: Path) -> None:
    """Also those that only a cluster of several brokers writes."""
    records = [Record(0, 0, *encode(fact)) for fact in HISTORY]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(build_batch(records))
    read = decoded_by_kafka(path)
    assert {record["type"] for record in read} == {
        "FEATURE_LEVEL_RECORD", "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD",
        "UNREGISTER_BROKER_RECORD", "TOPIC_RECORD", "CONFIG_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD", "PRODUCER_IDS_RECORD", "NO_OP_RECORD",
    }  # fmt: skip
    data = {type(fact): record["data"] for fact, record in zip(HISTORY, read, strict=True)}
    assert data[BrokerChanged]["fenced"] == 1 and data[FeatureLevelSet]["featureLevel"] == 0
    assert data[PartitionChanged]["leader"] == -1 and data[PartitionChanged]["addingReplicas"] == []
    changes = [record["data"] for fact, record in zip(HISTORY, read, strict=True) if isinstance(fact, PartitionChanged)]
    assert [("isr" in change, "replicas" in change) for change in changes] == [
        (False, False), (True, False), (False, True), (False, False)
    ]  # fmt: skip
    (secure,) = next(record["data"]["endPoints"] for record in read if record["type"] == "REGISTER_BROKER_RECORD")
    assert (secure["name"], secure["port"], secure["securityProtocol"]) == ("SECURE", 9093, 3)


def test_kafka_reads_the_metadata_log_of_a_broker(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.create_topics({"orders": {"num_partitions": 1, "replication_factor": 1}})
        admin.create_partitions({"orders": NewPartitions(2)})
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "orders", configs={"retention.ms": "1000"})])
        (described,) = admin.describe_topics(["orders"])
        with KafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True) as producer:
            producer.send("orders", b"value").get(30)
    broker.stop()
    broker.start()  # it leads its partitions in a new epoch
    with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
        admin.delete_topics(["orders"])
    broker.stop()

    founding = broker.data / "__cluster_metadata-0" / f"{0:020}-{0:010}.checkpoint"
    assert decoded_by_kafka(founding) == [], "the founding snapshot has only records of the quorum"
    records = dumped(broker)
    kinds = [record["type"] for record in records]
    assert kinds == [
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "PRODUCER_IDS_RECORD",
        "REGISTER_BROKER_RECORD",
        "PARTITION_CHANGE_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
    ]
    data = [record["data"] for record in records]
    assert data[0]["endPoints"][0] | {"host": ""} == {
        "name": "PLAINTEXT", "host": "", "port": broker.port, "securityProtocol": 0
    }  # fmt: skip
    assert data[1]["name"] == "orders"
    assert [partition["partitionId"] for partition in data[2:4]] == [0, 1]
    assert all(partition["replicas"] == partition["isr"] == [partition["leader"]] for partition in data[2:4])
    assert (data[4]["resourceName"], data[4]["name"], data[4]["value"]) == ("orders", "retention.ms", "1000")
    assert data[5]["nextProducerId"] > 0 and data[6]["brokerEpoch"] == 8 > data[0]["brokerEpoch"]
    assert [(change["partitionId"], change["leader"]) for change in data[7:9]] == [
        (index, data[0]["brokerId"]) for index in (0, 1)
    ]
    assert {record["topicId"] for record in (*data[1:4], *data[7:10])} == {data[1]["topicId"]}
    assert described["partitions"][1]["leader_id"] == data[0]["brokerId"]
