"""The life of a broker process: it starts or says in one line why not, drains when asked to, survives kill -9.

`KILLS=200 SEED=7 pytest tests/conformance/test_life.py -k killed` kills longer, or again.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqcore.wire.batches import read_headers
from mqcore.wire.errors import ErrorCode
from mqcore.wire.records import read_records
from seckill.stack.broker import BrokerProcess, free_port
from tests.conformance.raw import (
    DELETE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    Gone,
    Wire,
    batched,
    fetch_request,
    produce_request,
)

KILLS = int(os.environ.get("KILLS", "20"))
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\S+ (INFO|ERROR) ")
MQCORE = (sys.executable, "-m", "mqcore")


def name(code: int) -> str:
    return ErrorCode(code).name


def commit(wire: Wire, group: str, topic: str, offset: int) -> str:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [part]}],
    }
    return name(wire.ask(OFFSET_COMMIT, 7, request).topics[0].partitions[0].error_code)


def committed(wire: Wire, group: str, topic: str) -> int:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    give_up = time.monotonic() + 20
    while True:
        answer = wire.ask(OFFSET_FETCH, 5, asked)
        if name(answer.error_code) not in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"):
            return int(answer.topics[0].partitions[0].committed_offset)
        assert time.monotonic() < give_up
        time.sleep(0.02)


def read_all(wire: Wire, topic: str) -> list[tuple[int, bytes]]:
    """(offset, value) of everything in partition 0."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while records := wire.fetch(topic, offset).records:
        for position, header in read_headers(records):
            for record in read_records(records[position : position + header.size], header):
                found.append((record.offset, record.value or b""))
            offset = header.next_offset
    return found


# ── a wrong start ────────────────────────────────────────────────────────────────────────────────


def start_wrongly(*arguments: str | Path) -> str:
    """The one line that a start which cannot succeed leaves behind."""
    ended = subprocess.run([*MQCORE, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if not LOG_LINE.match(line)]
    assert len(lines) == 1 and lines[0].startswith("mqcore: "), ended.stderr
    return lines[0]


def test_a_second_process_on_the_same_folder_is_refused_and_the_first_goes_on(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = new_broker().start()
    says = start_wrongly("--data", broker.data, "--listen", f"127.0.0.1:{free_port()}")
    assert "in use" in says and str(broker.pid) in says
    with Wire(broker.port) as wire:
        wire.create(topic)
        assert wire.produce(topic).error_code == 0


def test_a_taken_port_is_named(broker: BrokerProcess, tmp_path: Path) -> None:
    says = start_wrongly("--data", tmp_path / "data", "--listen", broker.address)
    assert broker.address in says and "in use" in says


def test_a_taken_port_of_the_metrics_page_is_named(broker: BrokerProcess, tmp_path: Path) -> None:
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    says = start_wrongly("--data", tmp_path / "data", *listen, "--set", f"metrics.listener={broker.address}")
    assert broker.address in says


def test_an_address_that_is_not_ours_is_named(tmp_path: Path) -> None:
    assert "192.0.2.1:9092" in start_wrongly("--data", tmp_path / "data", "--listen", "192.0.2.1:9092")
    assert "no.such.host.invalid" in start_wrongly("--data", tmp_path / "d2", "--listen", "no.such.host.invalid:9092")


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert str(folder) in start_wrongly("--data", folder, "--listen", f"127.0.0.1:{free_port()}")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    assert str(tmp_path / "data") in start_wrongly("--data", tmp_path / "data", "--listen", f"127.0.0.1:{free_port()}")


def test_a_folder_of_another_node_is_refused(new_broker: Callable[..., BrokerProcess]) -> None:
    broker = new_broker().start()
    broker.stop()
    says = start_wrongly("--data", broker.data, "--listen", broker.address, "--set", "node.id=7")
    assert "belongs to node" in says and "node 7" in says


def test_a_damaged_metadata_log_is_not_served(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        for number in range(5):
            wire.create(f"{topic}-{number}")
    broker.kill()
    (log,) = (broker.data / "__cluster_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[100] ^= 0xFF
    log.write_bytes(content)
    says = start_wrongly("--data", broker.data, "--listen", broker.address, "--log-level", "error").lower()
    assert "metadata log" in says and "corrupt" in says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "no.such.thing=1"], "no.such.thing"),
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--listen", "nowhere"], "listeners"),
        (["--config", "no-such-file.toml"], "no-such-file.toml"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in start_wrongly("--data", tmp_path / "data", *arguments)
    assert not (tmp_path / "data").exists()  # nothing was begun


def test_a_configuration_file_is_read_and_its_mistakes_are_named(tmp_path: Path, topic: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[num]\npartitions = 3\n[lgo]\ndirs = "x"\n')
    assert "lgo.dirs" in start_wrongly("--config", file)
    file.write_text("[num]\npartitions = 3\n")

    class Configured(BrokerProcess):
        def command(self) -> list[str]:
            return [*super().command(), "--config", str(file)]

    with Configured(tmp_path / "broker") as broker, Wire(broker.port) as wire:
        assert len(wire.ask(METADATA, 1, {"topics": [{"name": topic}]}).topics[0].partitions) == 3


@pytest.mark.parametrize("command", [[], ["serve"], ["dump"], ["doctor"]])
def test_help_names_what_there_is(command: list[str]) -> None:
    shown = subprocess.run([*MQCORE, *command, "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert shown.startswith("usage: mqcore") and len(shown.splitlines()) > 5


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def test_sigterm_answers_who_waits_and_the_next_start_verifies_nothing(
    new_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = new_broker(group_initial_rebalance_delay_ms="60000").start()
    with Wire(broker.port) as fetching, Wire(broker.port) as joining, Wire(broker.port) as idle:
        fetching.create(topic)
        fetching.produce(topic, batched(b"x" * 100))
        fetching.send(FETCH, 11, fetch_request(topic, 1, max_wait_ms=60_000))
        joining.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        protocols = [{"name": "range", "metadata": b""}]
        member = {"group_id": group, "member_id": "", "protocol_type": "consumer", "protocols": protocols}
        joining.send(JOIN_GROUP, 3, {**member, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000})
        idle.ask(METADATA, 1, {"topics": []})  # the two above have been served by now
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < 10
        assert fetching.receive()[1].responses[0].partitions[0].high_watermark == 1
        assert name(joining.receive()[1].error_code) == "NOT_COORDINATOR"
        for wire in (fetching, joining, idle):
            with pytest.raises(Gone):
                wire.receive()
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    second_life = broker.log.rpartition("listening")[2]
    assert "clean=True" in second_life and "log recovered" not in second_life


def test_after_a_kill_the_next_start_verifies(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """The negative control of the test above."""
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.produce(topic)
    broker.kill()
    broker.start()
    assert "clean=False" in broker.log.rpartition("listening")[2]


def test_a_produce_under_way_is_answered_before_the_end(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic, flush_messages="1")
        for _ in range(100):
            wire.send(PRODUCE, 9, produce_request(topic))
        wire.receive()
        broker.stop()
        answered = 1
        try:
            while True:
                assert wire.receive()[1].responses[0].partition_responses[0].error_code == 0
                answered += 1
        except Gone:
            pass
    broker.start()
    with Wire(broker.port) as wire:
        assert wire.end(topic) == answered


# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────────


class Writer(threading.Thread):
    """Produces, commits and makes topics as fast as it can, and remembers what it was promised."""

    def __init__(self, port: int, topic: str, round_number: int) -> None:
        super().__init__(daemon=True)
        self._port, self._topic, self._round = port, topic, round_number
        self.produced: list[tuple[str, int, bytes]] = []
        self.committed: dict[str, tuple[int, int]] = {}  # acknowledged, asked for
        self.made: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            with Wire(self._port) as wire:
                number = 0
                while True:
                    self._step(wire, number)
                    number += 1
        except (Gone, OSError):
            pass

    def _step(self, wire: Wire, number: int) -> None:
        value = b"%d.%d" % (self._round, number)
        for topic in (f"{self._topic}-fast", f"{self._topic}-durable"):
            answer = wire.produce(topic, batched(value))
            if answer.error_code:
                self.errors.append(name(answer.error_code))
            else:
                self.produced.append((topic, answer.base_offset, value))
        group = f"{self._topic}-group-{number % 3}"
        offset = self._round * 1_000_000 + number
        acknowledged = self.committed.get(group, (-1, -1))[0]
        self.committed[group] = (acknowledged, offset)
        error = commit(wire, group, f"{self._topic}-fast", offset)
        if error == "NONE":
            self.committed[group] = (offset, offset)
        elif error != "COORDINATOR_LOAD_IN_PROGRESS":
            self.errors.append(error)
        if number % 7 == 0:
            made = f"{self._topic}-made-{self._round}-{number}"
            wire.create(made)
            self.made.append(made)


@pytest.mark.timeout(60 + 6 * KILLS)
def test_a_broker_that_is_killed_at_any_instant_loses_nothing_it_acknowledged(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} KILLS={KILLS}")
    chance = random.Random(seed)
    broker = new_broker(log_segment_bytes="16384", offsets_topic_segment_bytes="16384", log_cleaner_backoff_ms="50")
    broker.settings.update({"log.flush.offset.checkpoint.interval.ms": "100", "log.retention.check.interval.ms": "100"})
    broker.settings["log.segment.delete.delay.ms"] = "100"
    broker.start()
    with Wire(broker.port) as wire:
        wire.create(f"{topic}-fast")
        wire.create(f"{topic}-durable", flush_messages="1")
        wire.ask(FIND_COORDINATOR, 2, {"key": "any", "key_type": 0})
    promised: dict[tuple[str, int], bytes] = {}
    groups: dict[str, tuple[int, int]] = {}
    made: set[str] = set()
    for round_number in range(KILLS):
        writer = Writer(broker.port, topic, round_number)
        writer.start()
        time.sleep(chance.uniform(0.01, 0.4))
        broker.kill()
        writer.join(30)
        assert not writer.errors
        promised.update({(where, offset): value for where, offset, value in writer.produced})
        for group, (acknowledged, asked) in writer.committed.items():
            groups[group] = (max(acknowledged, groups.get(group, (-1, -1))[0]), asked)
        made.update(writer.made)
        broker.start()
        with Wire(broker.port) as wire:
            check(wire, topic, promised, groups, made)
    assert len(promised) > 10 * KILLS and made and groups
    assert "corrupt" not in broker.log


def check(
    wire: Wire,
    topic: str,
    promised: dict[tuple[str, int], bytes],
    groups: dict[str, tuple[int, int]],
    made: set[str],
) -> None:
    for where in (f"{topic}-fast", f"{topic}-durable"):
        found = read_all(wire, where)
        assert [offset for offset, _ in found] == list(range(len(found)))
        values = [value for _, value in found]
        assert len(set(values)) == len(values), "nothing was sent twice"
        for (place, offset), value in promised.items():
            if place == where:
                assert values[offset] == value
    listed = {entry.name for entry in wire.ask(METADATA, 1, {"topics": None}).topics}
    assert made <= listed
    for group, (acknowledged, asked) in groups.items():
        assert acknowledged <= committed(wire, group, f"{topic}-fast") <= asked


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB; only root can make one."""
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
        time.sleep(0.5)  # housekeeping and checkpoints meet the full disk, too
        assert name(wire.produce(topic, batched(b"full" * 100)).error_code) == "KAFKA_STORAGE_ERROR"
        assert commit(wire, group, topic, 1) == "NONE"  # what the broker itself needs has its reserve
        assert [value for _, value in read_all(wire, topic)] == [b"before"]
        wire.ask(DELETE_TOPICS, 3, {"topic_names": [f"{topic}-ballast"], "timeout_ms": 1000})
        while name(wire.produce(topic, batched(b"after")).error_code) != "NONE":
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert [value for _, value in read_all(wire, topic)] == [b"before", b"after"]
        assert not broker.ended_by_itself()
        assert broker.stop() == 0
        broker.start()
        with Wire(broker.port) as again:
            assert [value for _, value in read_all(again, topic)] == [b"before", b"after"]
            assert committed(again, group, topic) == 1


# ── what is around it ────────────────────────────────────────────────────────────────────────────


def test_the_page_of_metrics_counts(new_broker: Callable[..., BrokerProcess], topic: str, group: str) -> None:
    port = free_port()
    broker = new_broker(metrics_listener=f"127.0.0.1:{port}").start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        for _ in range(5):
            wire.produce(topic)
        commit(wire, group, topic, 2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            text = page.read().decode()
    assert 'mqcore_requests_total{api="Produce"} 5' in text
    assert f'mqcore_group_lag{{group="{group}",topic="{topic}"}} 3' in text
    assert f'mqcore_produced_records_total{{topic="{topic}"}} 5' in text
    assert "mqcore_partitions_offline 0" in text
    assert f'mqcore_log_bytes{{topic="{topic}"}}' in text


def test_committing_for_ever_does_not_grow_the_offsets_topic(
    new_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = new_broker(
        offsets_topic_segment_bytes="4096", log_cleaner_backoff_ms="20", offsets_topic_num_partitions="1"
    )
    broker.settings.update({"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "0"})
    broker.start()

    def used() -> int:
        return sum(file.stat().st_size for file in (broker.data / "__consumer_offsets-0").glob("*.log"))

    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        for offset in range(3000):  # about 400 KB of records
            assert commit(wire, group, topic, offset) == "NONE"
        give_up = time.monotonic() + 30
        while used() > 30_000:
            assert time.monotonic() < give_up, used()
            commit(wire, group, topic, 3000)
            time.sleep(0.01)
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        assert committed(wire, group, topic) in (2999, 3000)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_doctor_finds_nothing_and_dump_reads_everything(
    new_broker: Callable[..., BrokerProcess], topic: str, how: str
) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.produce(topic, batched(b"to be found"))
    getattr(broker, how)()
    checked = subprocess.run([*MQCORE, "doctor", str(broker.data)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    folder = str(broker.data / f"{topic}-0")
    shown = subprocess.run([*MQCORE, "dump", "--records", folder], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and "to be found" in shown.stdout, shown.stdout + shown.stderr


# ── a failing disk ───────────────────────────────────────────────────────────────────────────────


class Straced(BrokerProcess):
    """Its system calls fail as told, in strace's words."""

    inject = ""

    def command(self) -> list[str]:
        return ["strace", "-f", "-o", "/dev/null", "-e", f"inject={self.inject}", *super().command()]


@pytest.mark.needs("strace")
def test_a_disk_that_fails_a_sync_ends_the_broker_which_acknowledges_nothing_more(tmp_path: Path, topic: str) -> None:
    """A failed fdatasync is final: nobody knows what is on the disk, so nobody is told that anything is."""
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
    while not broker.ended_by_itself():
        assert time.monotonic() < give_up, broker.log[-2000:]
        time.sleep(0.02)
    assert broker.stop() == 1  # the code of a process that has ended already
    assert 0 < len(acknowledged) < 100
    assert broker.log.splitlines()[-1].startswith("mqcore: log directory failed") and "Traceback" not in broker.log
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    with BrokerProcess(tmp_path / "broker") as again, Wire(again.port) as wire:
        assert [value for _, value in read_all(wire, topic)][: len(acknowledged)] == acknowledged


@pytest.mark.needs("strace")
def test_writes_that_find_no_room_are_refused_and_leave_nothing_half_done(tmp_path: Path, topic: str) -> None:
    broker = Straced(tmp_path / "broker")
    broker.inject = "pwrite64:error=ENOSPC:when=20+3"  # every third write, whatever it is for
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
    assert not broker.ended_by_itself()
    pid = int(Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)  # the broker's own process, under strace
    broker.stop()
    with BrokerProcess(tmp_path / "broker") as again, Wire(again.port) as wire:
        assert read_all(wire, topic) == kept
