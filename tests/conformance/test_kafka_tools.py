"""Kafka's command-line tools, which administrators of this broker use too."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from loadtest.kafka_jars import java
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.peer import NODE_IDS
from tests.conformance.raw import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, Wire

pytestmark = pytest.mark.needs("java", "mvn")

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"


def run(tool: str, *options: str | Path, stdin: str = "", expect: int = 0) -> str:
    result = subprocess.run(java(tool, *options), input=stdin, capture_output=True, text=True, timeout=100)
    assert result.returncode == expect, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def on(broker: BrokerProcess) -> tuple[str, str]:
    return "--bootstrap-server", broker.address


def create(broker: BrokerProcess, topic: str, partitions: int = 1) -> None:
    run(TOPICS, *on(broker), "--create", "--topic", topic, "--partitions", str(partitions))


def write(broker: BrokerProcess, topic: str, lines: list[str]) -> None:
    run(f"{TOOLS}.ConsoleProducer", *on(broker), "--topic", topic, stdin="\n".join(lines) + "\n")


def test_topics_are_created_described_altered_listed_and_deleted(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic, partitions=2)
    run(TOPICS, *on(broker), "--alter", "--topic", topic, "--partitions", "3")
    description = run(TOPICS, *on(broker), "--describe", "--topic", topic)
    assert "PartitionCount: 3" in description
    assert re.search(r"TopicId: [\w-]{22}\s", description)
    rows = re.findall(r"Partition: \d\s+Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)\s", description)
    assert len(rows) == 3
    for leader, replicas, in_sync in rows:
        assert {int(node) for node in replicas.split(",")} == {int(node) for node in in_sync.split(",")} == {*NODE_IDS}
        assert leader in replicas.split(",")
    assert topic in run(TOPICS, *on(broker), "--list").split()
    run(TOPICS, *on(broker), "--delete", "--topic", topic)
    assert topic not in run(TOPICS, *on(broker), "--list").split()


def test_settings_of_a_topic_are_changed_and_shown(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run(CONFIGS, *on(broker), *entity, "--alter", "--add-config", "retention.ms=12345,cleanup.policy=[compact,delete]")
    shown = run(CONFIGS, *on(broker), *entity, "--describe")
    assert "retention.ms=12345" in shown
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=12345" in shown
    run(CONFIGS, *on(broker), *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=12345" not in run(CONFIGS, *on(broker), *entity, "--describe")
    run(CONFIGS, *on(broker), *entity, "--alter", "--add-config", "retention.ms=never", expect=1)
    everything = run(CONFIGS, *on(broker), *entity, "--describe", "--all")
    for name in ("segment.bytes", "max.message.bytes", "min.insync.replicas", "compression.type", "flush.messages"):
        assert f"  {name}=" in everything


def test_settings_of_the_broker_are_shown(broker: BrokerProcess) -> None:
    listing = run(CONFIGS, *on(broker), "--entity-type", "brokers", "--describe", "--all")
    assert "num.partitions=" in listing


def test_settings_that_kafka_can_change_at_run_time_are_accepted(broker: BrokerProcess) -> None:
    node = str(NODE_IDS[0])
    entity = ("--entity-type", "brokers", "--entity-name", node)
    changed = "log.cleaner.threads=2,num.io.threads=9,max.connections.per.ip.overrides=[127.0.0.1:50]"
    run(CONFIGS, *on(broker), *entity, "--alter", "--add-config", changed)
    names = ["log.cleaner.threads", "num.io.threads", "max.connections.per.ip.overrides"]
    resource = {"resource_type": 4, "resource_name": node}
    with Wire(broker.port) as wire:
        asked = {"resources": [{**resource, "configuration_keys": names}]}
        (described,) = wire.ask(DESCRIBE_CONFIGS, 4, asked).results
        assert {config.value for config in described.configs} == {"2", "9", "127.0.0.1:50"}
        delete = [{"name": name, "config_operation": 1, "value": None} for name in names]
        undone = wire.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{**resource, "configs": delete}]})
        assert undone.responses[0].error_code == 0


def test_features_name_the_version_of_the_metadata(broker: BrokerProcess) -> None:
    described = run(f"{TOOLS}.FeatureCommand", *on(broker), "describe")
    assert re.search(
        r"Feature: metadata\.version\s+SupportedMinVersion: 3\.3-IV3\s+SupportedMaxVersion: 4\.", described
    )


def test_a_refusal_is_printed_like_kafkas(broker: BrokerProcess, topic: str) -> None:
    with Wire(broker.port) as wire:
        wire.create(topic, partitions=3)
    fewer = run(TOPICS, *on(broker), "--alter", "--topic", topic, "--partitions", "1", expect=1)
    assert f"The topic {topic} currently has 3 partition(s); 1 would not be an increase." in fewer


def test_offsets_are_shown_before_and_after_records_are_deleted(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create(broker, topic)
    write(broker, topic, [f"line {i}" for i in range(10)])
    request = tmp_path / "delete.json"
    request.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in run(f"{TOOLS}.DeleteRecordsCommand", *on(broker), "--offset-json-file", request)
    shell = f"{TOOLS}.GetOffsetShell"
    assert run(shell, *on(broker), "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:4"]
    assert run(shell, *on(broker), "--topic", topic, "--time", "latest").split() == [f"{topic}:0:10"]


def test_a_group_is_described_reset_and_deleted(broker: BrokerProcess, topic: str, group: str) -> None:
    create(broker, topic)
    write(broker, topic, [f"line {i}" for i in range(10)])
    reading = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10", "--timeout-ms", "30000"]
    assert run(f"{TOOLS}.consumer.ConsoleConsumer", *on(broker), *reading).split("\n")[:2] == ["line 0", "line 1"]
    described = run(GROUPS, *on(broker), "--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+10\s+10\s+0\s", described), described
    assert group in run(GROUPS, *on(broker), "--list").split()
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3", "--execute"]
    run(GROUPS, *on(broker), *reset)
    assert re.search(rf"{topic}\s+0\s+3\s+10\s+7\s", run(GROUPS, *on(broker), "--describe", "--group", group))
    assert "Empty" in run(GROUPS, *on(broker), "--describe", "--group", group, "--state")
    run(GROUPS, *on(broker), "--delete-offsets", "--group", group, "--topic", topic)
    run(GROUPS, *on(broker), "--delete", "--group", group)
    assert group not in run(GROUPS, *on(broker), "--list").split()


def test_log_directories_show_the_size_of_a_partition(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, ["some", "lines"])
    out = run(f"{TOOLS}.LogDirsCommand", *on(broker), "--describe", "--topic-list", topic)
    (described,) = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    (partition,) = described["brokers"][0]["logDirs"][0]["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0
    assert not partition["isFuture"]


def test_kafkas_system_test_producer_and_consumer_verify_each_other(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create(broker, topic, partitions=2)
    sending = ["--topic", topic, "--max-messages", "2000", "--acks", "-1", "--value-prefix", "1"]
    sent = _events(run(f"{TOOLS}.VerifiableProducer", *on(broker), *sending))
    assert len(sent["producer_send_success"]) == 2000
    assert sent["tool_data"][0]["acked"] == 2000
    reading = [
        "--topic",
        topic,
        "--group-id",
        group,
        "--max-messages",
        "2000",
        "--reset-policy",
        "earliest",
        "--verbose",
    ]
    read = _events(run(f"{TOOLS}.VerifiableConsumer", *on(broker), *reading))
    acked = {(event["partition"], event["offset"], event["value"]) for event in sent["producer_send_success"]}
    seen = {(event["partition"], event["offset"], event["value"]) for event in read["record_data"]}
    assert seen == acked
    assert all(event["success"] for event in read["offsets_committed"])


def test_the_performance_tools_run(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic)
    properties = ["--command-property", f"bootstrap.servers={broker.address}", "acks=all"]
    sizes = ["--num-records", "20000", "--record-size", "1000", "--throughput", "-1"]
    sent = run(f"{TOOLS}.ProducerPerformance", "--topic", topic, *sizes, *properties)
    assert "20000 records sent" in sent
    read = run(f"{TOOLS}.ConsumerPerformance", *on(broker), "--topic", topic, "--num-records", "20000")
    columns = read.splitlines()[-1].split(", ")
    assert int(columns[4]) >= 20000


def test_the_versions_are_those_of_one_kafka_release(broker: BrokerProcess) -> None:
    listing = run(f"{TOOLS}.BrokerApiVersionsCommand", *on(broker))
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", listing)
    assert re.search(r"Fetch\(1\): 4 to \d+ \[usable: \d+\]", listing)


def test_kafka_reads_our_segments_without_errors(broker: BrokerProcess, topic: str) -> None:
    create(broker, topic)
    write(broker, topic, [f"line {i}" for i in range(50)])
    log = broker.data / f"{topic}-0" / f"{0:020}.log"
    dump = run(f"{TOOLS}.DumpLogSegments", "--files", log, "--print-data-log", "--deep-iteration")
    assert "isvalid: true" in dump
    assert "isvalid: false" not in dump
    assert re.findall(r"payload: (line \d+)", dump) == [f"line {i}" for i in range(50)]


def test_kafka_verifies_our_indexes(broker: BrokerProcess, topic: str) -> None:
    run(TOPICS, *on(broker), "--create", "--topic", topic, "--config", "segment.bytes=1048576")
    sizes = ["--num-records", "3000", "--record-size", "1000", "--throughput", "-1"]
    properties = ["--command-property", f"bootstrap.servers={broker.address}", "batch.size=10000"]
    run(f"{TOOLS}.ProducerPerformance", "--topic", topic, *sizes, *properties)
    folder = broker.data / f"{topic}-0"
    rolled = sorted(folder.glob("*.log"))[:-1]
    assert len(rolled) >= 2
    for segment in rolled:
        for suffix in (".index", ".timeindex"):
            index = segment.with_suffix(suffix)
            checked = run(f"{TOOLS}.DumpLogSegments", "--files", index, "--index-sanity-check")
            assert "passed sanity check" in checked
        entries = run(f"{TOOLS}.DumpLogSegments", "--files", segment.with_suffix(".index"))
        assert len(re.findall(r"offset: \d+ position: \d+", entries)) > 20
        assert "Mismatches" not in entries + run(
            f"{TOOLS}.DumpLogSegments", "--files", segment.with_suffix(".timeindex")
        )


def _events(out: str) -> dict[str, list[dict[str, object]]]:
    """The output of Kafka's verifiable tools, one JSON object per line, by name."""
    found: dict[str, list[dict[str, object]]] = {}
    for line in out.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            found.setdefault(event["name"], []).append(event)
    return found
