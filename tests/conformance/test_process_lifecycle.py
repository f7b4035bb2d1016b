"""The lifecycle of a broker process: how it starts and stops, who may connect, and what it reports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from mqcore.wire.errors import ErrorCode
from seckill.stack.broker_process import BrokerFault, BrokerProcess
from seckill.stack.child_processes import free_port
from tests.conformance.raw import FIND_COORDINATOR, JOIN_GROUP, Wire
from tests.services import until

HEARTBEAT, SYNC_GROUP, DESCRIBE_GROUPS = 12, 14, 15
CLEAN_MARK = ".kafka_cleanshutdown"


def write(broker: BrokerProcess, topic: str, count: int, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0, **settings})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0


def read(broker: BrokerProcess, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = consumer.consume(count, timeout=20)
    consumer.close()
    return [message.value() for message in found]


def mqcore(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mqcore", *arguments], capture_output=True, text=True, timeout=30)


def test_a_stop_with_connected_clients_is_clean(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    write(broker, "t", 10)
    waiting = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0, "fetch.wait.max.ms": 20_000}
    )
    waiting.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    waiting.consume(10, timeout=10)
    assert broker.stop() == 0
    assert (broker.data / CLEAN_MARK).exists()
    broker.start()
    assert not (broker.data / CLEAN_MARK).exists(), (
        "a mark that stays would also vouch for the next start after a crash"
    )
    waiting.close()  # only now, because librdkafka looks for its coordinator for 45 s
    assert read(broker, "t", 10) == [b"%d" % number for number in range(10)]


def test_a_killed_broker_recovers_every_record_and_logs_the_recovery(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    write(broker, "t", 1000)
    broker.kill()
    assert not (broker.data / CLEAN_MARK).exists()
    broker.start()
    assert read(broker, "t", 1000) == [b"%d" % number for number in range(1000)]
    assert re.search(r"recovered.*partition=t-0", broker.log)


def test_a_data_folder_serves_one_broker(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    second = mqcore("serve", "--listen", f"127.0.0.1:{free_port()}", "--data", str(broker.data))
    assert second.returncode == 1
    assert len(second.stderr.strip().splitlines()[-1]) > 20
    assert "Traceback" not in second.stderr
    assert not broker.has_crashed()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("num.partitons=3", "num.partitons"),
        ("num.partitions=none", "num.partitions"),
        ("num.partitions=0", "num.partitions"),
        ("log.retention.ms=soon", "log.retention.ms"),
        ("listeners=127.0.0.1:9092", "listeners"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_its_name(tmp_path: Path, setting: str, said: str) -> None:
    result = mqcore("serve", "--data", str(tmp_path / "data"), "--set", setting)
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('"num.partitions" = 7\n[group]\ninitial.rebalance.delay.ms = 5\n[log]\nretention.never = 1\n')
    result = mqcore("serve", "--config", str(file), "--data", str(tmp_path / "data"))
    assert result.returncode == 1
    assert "log.retention.never" in result.stderr


def test_the_metrics_page_has_prometheus_format(new_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    broker = new_broker(metrics_listener=f"127.0.0.1:{port}").start()
    write(broker, "t", 100)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    assert re.search(r"^mqcore_produced_records_total(\{.*\})? 100$", page, re.MULTILINE)
    assert re.search(r'^mqcore_requests_total\{api="Produce"\} \d+$', page, re.MULTILINE)


def test_the_doctor_accepts_a_stopped_folder_and_reports_a_damaged_one(
    new_broker: Callable[..., BrokerProcess],
) -> None:
    broker = new_broker().start()
    for _ in range(5):
        write(broker, "t", 100)
    broker.stop()
    assert mqcore("doctor", str(broker.data)).returncode == 0
    segment = broker.data / "t-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    spoilt = mqcore("doctor", str(broker.data))
    assert spoilt.returncode != 0
    assert "t-0" in spoilt.stdout + spoilt.stderr


def test_a_corrupt_partition_is_offline_and_the_others_are_served(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    for topic in ("bad", "good"):
        for _ in range(5):
            write(broker, topic, 100)
    broker.kill()
    segment = broker.data / "bad-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    broker.start()
    assert len(read(broker, "good", 500)) == 500
    write(broker, "good", 1)
    assert re.search(r"ERROR.*bad-0", broker.log)
    assert segment.read_bytes() == bytes(content), "a corrupt log is reported and not truncated"


def test_a_failed_start_reports_its_cause(new_broker: Callable[..., BrokerProcess]) -> None:
    """A test of the harness: a failed start must not look like a running broker."""
    broker = new_broker(no_such_setting="1")
    with pytest.raises(BrokerFault, match=r"no\.such\.setting"):
        broker.start()


@pytest.mark.parametrize("way", ["--listen", "--set", "--config"])
def test_a_public_listener_prevents_the_start_unless_allowed(tmp_path: Path, way: str) -> None:
    port, data = free_port(), tmp_path / "data"
    (tmp_path / "broker.toml").write_text(f'listeners = "INSIDE://127.0.0.1:{port},OUTSIDE://0.0.0.0:{port + 1}"\n')
    said = {
        "--listen": f"0.0.0.0:{port}",
        "--set": f"listeners=PLAINTEXT://[::]:{port}",
        "--config": str(tmp_path / "broker.toml"),
    }
    refused = mqcore("serve", "--data", str(data), way, said[way])
    assert refused.returncode == 1 and "allow.unauthenticated.listeners=true" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not data.exists()


def test_the_files_of_the_broker_are_readable_only_by_its_account(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker(
        listeners=f"PLAINTEXT://0.0.0.0:{(port := free_port())}",
        allow_unauthenticated_listeners="true",
        advertised_listeners=f"PLAINTEXT://127.0.0.1:{port}",
    )
    broker.port = port
    with broker:
        write(broker, "t", 10)
    made = [broker.data, *broker.data.rglob("*")]
    assert len(made) > 5 and {path.stat().st_mode & 0o077 for path in made} == {0}


def test_members_whose_heartbeats_arrive_while_the_broker_is_stopped_are_not_expelled(
    new_broker: Callable[..., BrokerProcess],
) -> None:
    """One of eight members uses a new connection. A member that sends nothing is still expelled."""
    broker = new_broker().start()
    session_ms = 1_500
    with ExitStack() as connections:

        def connect() -> Wire:
            return connections.enter_context(Wire(broker.port))

        def join(wire: Wire, group: str) -> str:
            protocols = [{"name": "range", "metadata": b""}]
            fields = {"group_id": group, "session_timeout_ms": session_ms, "rebalance_timeout_ms": 60_000}
            fields |= {"member_id": "", "protocol_type": "consumer", "protocols": protocols}
            member = str(wire.ask(JOIN_GROUP, 3, fields).member_id)
            wire.ask(SYNC_GROUP, 1, {"group_id": group, "generation_id": 1, "member_id": member, "assignments": []})
            return member

        def heartbeat(group: str, member: str) -> dict[str, Any]:
            return {"group_id": group, "generation_id": 1, "member_id": member}

        def describe(wire: Wire, group: str) -> Any:
            return wire.ask(DESCRIBE_GROUPS, 3, {"groups": [group], "include_authorized_operations": False}).groups[0]

        with Wire(broker.port) as wire:
            wire.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["any"]})
        wires = [connect() for _ in range(8)]
        members = {f"group-{number}": join(wire, f"group-{number}") for number, wire in enumerate(wires)}
        join(wires[0], "silent")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            wires[-1] = connect()
            for wire, (group, member) in zip(wires, members.items(), strict=True):
                wire.send(HEARTBEAT, 3, heartbeat(group, member))
            time.sleep(2 * session_ms / 1000)  # the stop itself, longer than the session timeout
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert [wire.receive()[1].error_code for wire in wires] == [ErrorCode.NONE] * 8
        until(lambda: not describe(wires[0], "silent").members, "the silent member to be expelled")
