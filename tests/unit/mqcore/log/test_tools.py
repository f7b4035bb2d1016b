"""`mqcore dump` and `mqcore doctor`."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from mqcore.disk.lock import DirectoryLock
from mqcore.disk.posix import PosixDisk
from mqcore.identity import TopicPartition
from mqcore.log import doctor, dump
from mqcore.log.checkpoints import RECOVERY_POINTS, CheckpointFile
from mqcore.log.clean_mark import CLEAN_MARK, write_clean_mark
from mqcore.log.errors import CorruptLog
from mqcore.log.log import Log
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.producers import Producers
from mqcore.wire.batches import read_header
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=50)
FIRST = "00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one partition of several segments, stopped cleanly."""
    disk = PosixDisk(tmp_path)
    log = Log.open(disk, "orders-0", CONFIG, now_ms=0, clean=False, recovery_point=0, observer=Producers())
    for number in range(9):
        values = [b"value %d" % number, b"\xff\x00"]
        append(log, batch(values, keys=[b"key", None], producer=5, sequence=number * 2, codec=number % 5))
    log.close()
    CheckpointFile(disk, RECOVERY_POINTS).write({TopicPartition("orders", 0): 18})
    return tmp_path


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def dumped(*paths: Path, records: bool = False, as_json: bool = False) -> tuple[int, list[str]]:
    out = io.StringIO()
    code = dump.dump_files([str(path) for path in paths], records, as_json, out)
    return code, out.getvalue().splitlines()


def examined(data: Path, cut: str | None = None) -> tuple[int, list[dict[str, object]]]:
    out = io.StringIO()
    code = doctor.run_doctor(str(data), cut, True, out)
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


# --- dump ------------------------------------------------------------------------------------------------------------


def test_a_folder_is_dumped_file_by_file(data: Path) -> None:
    code, lines = dumped(data)
    assert code == 0
    titles = [line.rsplit("/", 1)[-1] for line in lines if line.startswith("# ")]
    assert {FIRST, "leader-epoch-checkpoint", "recovery-point-offset-checkpoint"} <= set(titles)
    assert any(line.startswith("position: 0  offsets: 0..1  records: 2  bytes: ") for line in lines)
    assert any("codec: zstd" in line and "producer: 5" in line for line in lines)


def test_records_are_shown_as_text_where_they_are_text_and_in_hex_where_not(data: Path) -> None:
    code, lines = dumped(data / "orders-0" / FIRST, records=True)
    assert code == 0
    assert "offset: 0  timestamp: 1000  key: key  value: value 0  headers: {}" in lines
    assert "offset: 1  timestamp: 1001  key: None  value: 0xff00  headers: {}" in lines


def test_json_has_one_object_a_line_that_names_its_file(data: Path) -> None:
    code, lines = dumped(data / "orders-0", records=True, as_json=True)
    assert code == 0
    objects = [json.loads(line) for line in lines]
    assert all(str(data) in entry["file"] for entry in objects)
    assert sum("value" in entry for entry in objects) == 18
    assert any("position" in entry and entry["file"].endswith(".index") for entry in objects)
    assert any("timestamp" in entry and entry["file"].endswith(".timeindex") for entry in objects)


def test_damage_is_shown_at_its_position(data: Path) -> None:
    flip(data / "orders-0" / FIRST, 70)
    code, lines = dumped(data / "orders-0" / FIRST)
    assert code == 1
    assert lines[1].startswith("position: 0  damage: wrong CRC  bytes behind: ")


@pytest.mark.parametrize("name", ["x.index", "x.timeindex", "x.snapshot"])
@pytest.mark.parametrize("content", [b"\xff" * 7, b"\xff" * 24, b"\xff" * 100])
def test_garbage_is_shown_as_damage_and_does_not_crash(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    code, lines = dumped(tmp_path / name)
    assert code == 1
    assert "damage" in lines[-1]


def test_a_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dumped(tmp_path / "nothing.log")[0] == 1
    assert "No such file" in capsys.readouterr().err


def test_producer_snapshots_are_shown(tmp_path: Path) -> None:
    producers = Producers()
    data = batch([b"a", b"b"], producer=77, sequence=40)
    producers.observe(read_header(data))
    (tmp_path / "00000000000000000002.snapshot").write_bytes(producers.snapshot())
    code, lines = dumped(tmp_path)
    assert code == 0
    assert lines[1].startswith("producer: 77  producer epoch: 0  last sequence: 41  last offset: 1")


# --- doctor ----------------------------------------------------------------------------------------------------------


def test_a_sound_folder_has_no_findings(data: Path) -> None:
    write_clean_mark(PosixDisk(data), 1)
    assert examined(data) == (0, [])
    out = io.StringIO()
    assert doctor.run_doctor(str(data), None, False, out) == 0
    assert out.getvalue() == "1 partitions, nothing found\n"


@pytest.mark.parametrize("name", ["abcdefghijklmnopqrst.log", "notes.index", "README", "abcdefghijklmnopqrst.log.swap"])
def test_files_that_are_not_the_brokers_stop_neither_the_doctor_nor_a_start(data: Path, name: str) -> None:
    (data / "orders-0" / name).write_bytes(b"mine")
    code, findings = examined(data)
    assert code == 0 and {finding["file"] for finding in findings} <= {name}
    log = Log.open(PosixDisk(data), "orders-0", CONFIG, now_ms=0, clean=False, recovery_point=0, observer=Producers())
    assert log.end_offset == 18


def test_corruption_is_an_error_and_nothing_is_changed(data: Path) -> None:
    flip(data / "orders-0" / FIRST, 70)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    code, findings = examined(data)
    assert code == 1
    assert [(finding["severity"], finding["partition"], finding["position"]) for finding in findings] == [
        ("error", "orders-0", 0)
    ]
    assert "wrong CRC; valid batches follow" in str(findings[0]["text"])
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_torn_tail_that_the_next_start_cuts_is_a_remark(data: Path) -> None:
    last = sorted((data / "orders-0").glob("*.log"))[-1]
    cut(last, last.stat().st_size - 1)
    CheckpointFile(PosixDisk(data), RECOVERY_POINTS).write({TopicPartition("orders", 0): 2})
    code, findings = examined(data)
    assert code == 0
    assert findings[0]["severity"] == "remark"
    assert "torn write" in str(findings[0]["text"])


@pytest.mark.parametrize("why", ["durable", "clean"])
def test_a_torn_tail_of_durable_data_is_an_error(data: Path, why: str) -> None:
    last = sorted((data / "orders-0").glob("*.log"))[-1]
    cut(last, last.stat().st_size - 1)
    disk = PosixDisk(data)
    if why == "clean":
        CheckpointFile(disk, RECOVERY_POINTS).write({})
        write_clean_mark(disk, 1)
    code, findings = examined(data)
    assert code == 1
    assert ("were durable and are lost" if why == "durable" else "stopped cleanly") in str(findings[0]["text"])


def test_a_missing_segment_and_damaged_hints_are_found(data: Path) -> None:
    partition = data / "orders-0"
    logs = sorted(partition.glob("*.log"))
    indexes = sorted(partition.glob("*.index"))
    indexes[0].write_bytes((1).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    indexes[1].write_bytes(b"\xff" * 5)
    (partition / "leader-epoch-checkpoint").write_bytes(b"?")
    (partition / "00000000000000000009.log.deleted").write_bytes(b"")
    _, findings = examined(data)
    texts = " | ".join(str(finding["text"]) for finding in findings)
    assert "its entry for offset 1 is wrong" in texts
    assert "it is rebuilt when it is needed" in texts
    assert "the next start rebuilds it" in texts
    assert "left over from a crash" in texts
    logs[1].unlink()
    code, findings = examined(data)
    assert code == 1
    assert "but the next segment begins at" in str(findings[0]["text"])


def test_a_cut_ends_the_log_before_the_corruption_and_keeps_the_removed_bytes(data: Path, tmp_path: Path) -> None:
    partition = data / "orders-0"
    logs = sorted(partition.glob("*.log"))
    disk = PosixDisk(data)
    wanted = stored(open_log(disk, CONFIG, clean=True))
    second = logs[1].read_bytes()
    base = int(logs[1].name[:20])
    flip(logs[1], 70)
    with pytest.raises(CorruptLog):
        open_log(disk, CONFIG)
    write_clean_mark(disk, 1)
    code, findings = examined(data, cut="orders-0")
    assert (code, findings[0]["severity"]) == (0, "done")
    assert not (data / CLEAN_MARK).exists()
    assert CheckpointFile(disk, RECOVERY_POINTS).read() == {TopicPartition("orders", 0): base}
    taken = sorted(path.name for path in partition.glob("*.cut"))
    assert taken == [f"{path.name}.cut" for path in logs[1:]]
    assert len((partition / taken[0]).read_bytes()) == len(second)
    log = open_log(disk, CONFIG, recovery_point=base)
    assert log.end_offset == base
    assert stored(log) == wanted[: base // 2]
    assert examined(data)[0] == 0


def test_a_cut_needs_a_stopped_broker_a_partition_and_something_to_cut(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert examined(data, cut="orders-0") == (2, [])
    assert "nothing to cut" in capsys.readouterr().err
    assert examined(data, cut="orders-7") == (2, [])
    assert "no partition folder named orders-7" in capsys.readouterr().err
    flip(data / "orders-0" / FIRST, 70)
    with DirectoryLock(data):
        assert examined(data, cut="orders-0") == (2, [])
    assert "is in use by process" in capsys.readouterr().err
    shutil.rmtree(data)
    assert examined(data) == (2, [])
    assert "is not a folder" in capsys.readouterr().err
