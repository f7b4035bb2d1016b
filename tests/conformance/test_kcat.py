"""kcat with the librdkafka of the system, which is older than the one from PyPI."""

from __future__ import annotations

import json
import subprocess

import pytest

from seckill.stack.broker_process import BrokerProcess

pytestmark = pytest.mark.needs("kcat")


def kcat(broker: BrokerProcess, *options: str, stdin: str = "") -> str:
    command = ["kcat", "-b", broker.address, "-q", *options]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_are_delivered_with_key_offset_and_headers(broker: BrokerProcess, topic: str, codec: str) -> None:
    lines = [f"key{i}:value {i}" for i in range(500)]
    kcat(broker, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "from=kcat", stdin="\n".join(lines))
    out = kcat(broker, "-C", "-t", topic, "-e", "-o", "beginning", "-f", "%o %k:%s %h\n")
    assert out.splitlines() == [f"{i} {line} from=kcat" for i, line in enumerate(lines)]


def test_kcat_reads_the_end_of_a_topic_and_from_a_time(broker: BrokerProcess, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="a\nb\nc\nd")
    assert kcat(broker, "-C", "-t", topic, "-e", "-o", "-2") == "c\nd\n"
    assert kcat(broker, "-C", "-t", topic, "-e", "-o", "s@1000") == "a\nb\nc\nd\n"


def test_kcat_lists_the_advertised_addresses(broker: BrokerProcess, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="x")
    listing = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert sorted(b["name"] for b in listing["brokers"]) == sorted(broker.address.split(","))
    ids = {b["id"] for b in listing["brokers"]}
    (described,) = listing["topics"]
    assert described["topic"] == topic
    assert described["partitions"][0]["leader"] in ids
    assert {each["id"] for each in described["partitions"][0]["isrs"]} == ids


def test_kcat_finds_the_offset_at_a_time(broker: BrokerProcess, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="a\nb")
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1").split() == [topic, "[0]", "offset", "2"]


def test_a_balanced_consumer_leaves_its_group_with_offsets_committed(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    kcat(broker, "-P", "-t", topic, stdin="a\nb\nc")
    reading = ["-G", group, topic, "-e", "-X", "auto.offset.reset=earliest", "-f", "%s\n"]
    assert kcat(broker, *reading) == "a\nb\nc\n"
    kcat(broker, "-P", "-t", topic, stdin="d")
    assert kcat(broker, *reading) == "d\n"
