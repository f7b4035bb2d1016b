"""A full disk and a failing disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.committed_offsets import commit, committed, name, read_all
from tests.conformance.raw import (
    DELETE_TOPICS,
    FIND_COORDINATOR,
    Gone,
    Wire,
    batched,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB, which only root can create."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here (only root may)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_refuses_produces_serves_fetches_and_recovers_without_a_restart(
    small_disk: Path, topic: str, group: str
) -> None:
    settings = {"log.segment.bytes": "1048576", "log.retention.check.interval.ms": "100"}
    settings |= {"log.flush.offset.checkpoint.interval.ms": "100", "log.segment.delete.delay.ms": "0"}
    settings |= {"log.dirs.min.free.bytes": "4194304"}
    broker = BrokerProcess(small_disk / "broker", settings)
    with broker, Wire(broker.port) as wire:
        wire.create(f"{topic}-ballast")
        wire.create(topic, flush_messages="1")
        wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        assert wire.produce(topic, batched(b"before")).error_code == 0
        give_up = time.monotonic() + 30
        while (error := name(wire.produce(f"{topic}-ballast", batched(b"x" * 200_000)).error_code)) == "NONE":
            assert time.monotonic() < give_up
        assert error == "KAFKA_STORAGE_ERROR"
        time.sleep(0.5)  # a few rounds of housekeeping on the full disk, each of which runs at least every 500 ms
        assert name(wire.produce(topic, batched(b"full" * 100)).error_code) == "KAFKA_STORAGE_ERROR"
        assert commit(wire, group, topic, 1) == "NONE"  # the broker's own writes have a reserve
        assert [value for _, value in read_all(wire, topic)] == [b"before"]
        wire.ask(DELETE_TOPICS, 3, {"topic_names": [f"{topic}-ballast"], "timeout_ms": 1000})
        while name(wire.produce(topic, batched(b"after")).error_code) != "NONE":
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert [value for _, value in read_all(wire, topic)] == [b"before", b"after"]
        assert not broker.has_crashed()
        assert broker.stop() == 0
        broker.start()
        with Wire(broker.port) as again:
            assert [value for _, value in read_all(again, topic)] == [b"before", b"after"]
            assert committed(again, group, topic) == 1


class Straced(BrokerProcess):
    """A broker whose system calls fail as an strace expression says."""

    inject = ""

    def command(self) -> list[str]:
        return ["strace", "-f", "-o", "/dev/null", "-e", f"inject={self.inject}", *super().command()]


@pytest.mark.needs("strace")
def test_a_failed_sync_stops_the_broker_and_nothing_more_is_acknowledged(tmp_path: Path, topic: str) -> None:
    """After a failed fdatasync the content of the disk is unknown, so nothing may be acknowledged."""
    broker = Straced(tmp_path / "broker")
    broker.inject = "fdatasync:error=EIO:when=30"
    broker.start()
    acknowledged = []
    try:
        with Wire(broker.port) as wire:
            wire.create(topic, flush_messages="1")
            for number in range(100):
                answer = wire.produce(topic, batched(b"%d" % number))
                if answer.error_code:
                    assert name(answer.error_code) == "KAFKA_STORAGE_ERROR"
                    break
                acknowledged.append(b"%d" % number)
    except Gone:
        pass
    give_up = time.monotonic() + 20
    while not broker.has_crashed():
        assert time.monotonic() < give_up, broker.log[-2000:]
        time.sleep(0.02)
    assert broker.stop() == 1  # the exit code of the ended process
    assert 0 < len(acknowledged) < 100
    assert broker.log.splitlines()[-1].startswith("mqcore: log directory failed") and "Traceback" not in broker.log
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    with BrokerProcess(tmp_path / "broker") as again, Wire(again.port) as wire:
        assert [value for _, value in read_all(wire, topic)][: len(acknowledged)] == acknowledged


@pytest.mark.needs("strace")
def test_writes_to_a_full_disk_are_refused_and_leave_nothing_half_written(tmp_path: Path, topic: str) -> None:
    broker = Straced(tmp_path / "broker")
    broker.inject = "pwrite64:error=ENOSPC:when=20+3"  # every third write of any kind
    broker.start()
    outcomes = []
    with Wire(broker.port) as wire:
        wire.create(topic)
        for number in range(60):
            answer = wire.produce(topic, batched(b"%d" % number))
            outcomes.append((name(answer.error_code), answer.base_offset, b"%d" % number))
        assert {error for error, _, _ in outcomes} == {"NONE", "KAFKA_STORAGE_ERROR"}
        kept = [(offset, value) for error, offset, value in outcomes if error == "NONE"]
        assert read_all(wire, topic) == kept
    assert not broker.has_crashed()
    pid = int(Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)  # the broker process below strace
    broker.stop()
    with BrokerProcess(tmp_path / "broker") as again, Wire(again.port) as wire:
        assert read_all(wire, topic) == kept
