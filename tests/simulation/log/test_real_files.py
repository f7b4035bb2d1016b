"""The promises of the log on real files, with real kills, real faults and a really full disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from mqcore.disk import posix
from mqcore.disk.posix import PosixDisk
from mqcore.log.errors import LogFailed
from mqcore.log.log import Log
from mqcore.wire.batches import read_header
from mqcore.wire.records import read_records
from tests.simulation.log.killed_process import CONFIG, payload
from tests.unit.mqcore.log.helpers import LastSequences, append, batch, open_log, stored

ROOT = Path(__file__).parents[3]
KILLED_PROCESS = [sys.executable, "-m", "tests.simulation.log.killed_process"]


def check(directory: Path, acknowledged: list[int]) -> Log:
    """Check that all acknowledged records exist with their content, and that the producers match them."""
    observer = LastSequences()
    log = open_log(PosixDisk(directory), CONFIG, observer=observer)
    offset = log.start_offset
    for data in stored(log):
        assert read_header(data).base_offset == offset
        assert [record.value for record in read_records(data)] == [payload(offset)]
        offset += 1
    assert offset == log.end_offset >= len(acknowledged)
    if log.end_offset:
        assert observer.last == {1: (log.end_offset - 1, log.end_offset - 1)}
    return log


def test_a_process_killed_at_any_moment_loses_no_acknowledged_record(tmp_path: Path) -> None:
    random, next_offset = Random(1), 0
    directory = tmp_path / "data"
    for run in range(5):
        with subprocess.Popen([*KILLED_PROCESS, str(directory)], cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(random.randrange(1, 250))]
            process.kill()
            lines += process.stdout.read().splitlines()
        acknowledged = [int(line) for line in lines]
        assert acknowledged == list(range(next_offset, next_offset + len(acknowledged))), f"run {run}"
        log = check(directory, [])
        next_offset = log.end_offset
        assert next_offset > acknowledged[-1]
        log.segments.close()


def test_a_process_killed_at_any_system_call_loses_no_acknowledged_record(tmp_path: Path) -> None:
    subprocess.run([*KILLED_PROCESS, str(tmp_path), "enumerate"], cwd=ROOT, check=True, timeout=100)
    kills = sorted(tmp_path.iterdir(), key=lambda path: int(path.name.partition("-")[0]))
    assert len(kills) > 60
    for kill in kills:
        if not (kill / "data").exists():
            continue
        acknowledged = [int(line) for line in (kill / "acknowledged").read_text().splitlines()]
        log = check(kill / "data", acknowledged)
        append(log, batch([b"after the kill"]))
        log.segments.close()


@pytest.mark.parametrize("name", ["pwrite", "_fdatasync", "fsync"])
def test_a_real_io_error_fails_the_log_and_a_restart_finds_all_records(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = posix if name == "_fdatasync" else os
    call = getattr(owner, name)
    for nth in range(1, 6):
        directory, count = tmp_path / f"{name}-{nth}", 0
        log = open_log(PosixDisk(directory), CONFIG)
        taken: list[bytes] = []

        def failing(*arguments: object, nth: int = nth) -> object:
            nonlocal count
            count += 1
            if count == nth:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return call(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing)
            with pytest.raises(LogFailed):
                for _ in range(60):
                    taken.append(append(log, batch([b"x" * 100])))
                    log.sync()
                    log.roll(0)
            with pytest.raises(LogFailed):
                append(log)
        log.close()
        assert stored(open_log(PosixDisk(directory), CONFIG))[: len(taken)] == taken


FULL = """
import errno, sys
from mqcore.disk.posix import PosixDisk
from tests.simulation.log.killed_process import CONFIG
from tests.unit.mqcore.log.helpers import append, batch, open_log, stored
disk = PosixDisk(sys.argv[1] + "/data")
log, taken, refused = open_log(disk, CONFIG), [], 0
ballast = disk.open("ballast", create=True)
ballast.append([bytes(300_000)])
while refused < 20:
    try:
        taken.append(append(log, batch([b"x" * 700])))
    except OSError as fault:
        assert fault.errno == errno.ENOSPC, fault
        refused += 1
    if refused:
        assert stored(log) == taken[-len(stored(log)):]
assert log.faults.failure is None
disk.remove("ballast"); ballast.close()
taken += [append(log, batch([b"y" * 700])) for _ in range(50)]
assert stored(log) == taken
log.segments.close()
assert stored(open_log(disk, CONFIG)) == taken
print("taken", len(taken))
"""


def test_a_really_full_disk_serves_readers_and_recovers_without_a_restart(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a small file system of its own")
    mount = f'mount -t tmpfs -o size=1m tmpfs "{tmp_path}" 2>/dev/null || exit 77; exec "$@"'
    command = ["unshare", "-r", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this system does not allow mounting a small file system")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("taken ")


def test_syncs_on_another_thread_run_beside_appends_rolls_and_retention(tmp_path: Path) -> None:
    log = open_log(PosixDisk(tmp_path), CONFIG)
    stopped = threading.Event()
    reached: list[int] = []
    cuts = 0

    def sync_for_ever() -> None:
        while not stopped.is_set():
            before, cuts_before = log.end_offset, cuts
            reached.append(log.sync())
            if cuts == cuts_before and cuts % 2 == 0:  # odd: a truncation is running
                assert reached[-1] >= before  # everything appended before the sync was requested

    with ThreadPoolExecutor(1) as threads:
        syncing = threads.submit(sync_for_ever)
        wanted = []
        for number in range(800):
            wanted.append(append(log, batch([payload(number)])))
            if number % 100 == 99:
                log.apply_retention(number, limit=log.end_offset)
            if number % 200 == 199:
                cuts += 1
                log.truncate_to(log.end_offset - 3)
                cuts += 1
                del wanted[-3:]
        stopped.set()
        syncing.result()
    assert log.sync() == log.end_offset
    assert not log.needs_sync()
    found = stored(log)
    assert found == wanted[-len(found) :]
    assert len(reached) > 1
