"""Our metadata log, decoded by Kafka's own decoder for metadata records."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
from kafka.producer import KafkaProducer

from loadtest.kafka_jars import java
from seckill.stack.broker_process import BrokerProcess

pytestmark = pytest.mark.needs("java", "mvn")

DUMP = "org.apache.kafka.tools.DumpLogSegments"


def dumped(broker: BrokerProcess) -> list[dict[str, Any]]:
    """Every record as Kafka decodes it."""
    log = broker.data / "__cluster_metadata-0" / f"{0:020}.log"
    command = java(DUMP, "--cluster-metadata-decoder", "--files", log)
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "isvalid: false" not in result.stdout
    return [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", result.stdout, re.MULTILINE)]


def test_kafka_reads_every_kind_of_metadata_record(new_broker: Callable[..., BrokerProcess]) -> None:
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
    assert data[5]["nextProducerId"] > 0 and data[6]["brokerEpoch"] == data[0]["brokerEpoch"] + 1
    assert [(change["partitionId"], change["leader"], change["isr"]) for change in data[7:9]] == [
        (index, data[0]["brokerId"], [data[0]["brokerId"]]) for index in (0, 1)
    ]
    assert {record["topicId"] for record in (*data[1:4], *data[7:10])} == {data[1]["topicId"]}
    assert described["partitions"][1]["leader_id"] == data[0]["brokerId"]
