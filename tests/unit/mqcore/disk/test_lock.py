"""Only one process may use a data directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqcore.disk.lock import DirectoryLock, DirectoryLocked

HOLD = """
import sys
from mqcore.disk.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DirectoryLocked, match=f"in use by process {other.pid}") as caught:
            DirectoryLock(tmp_path)
        assert caught.value.pid == other.pid
        other.send_signal(signal.SIGKILL)
    with DirectoryLock(tmp_path):  # the kernel released the lock with its process
        pass


def test_a_released_lock_can_be_taken_again_and_released_twice(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryLocked):
        DirectoryLock(tmp_path)
    lock.release()
    lock.release()
    with DirectoryLock(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_file_without_a_pid_still_refuses_a_second_process(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    (tmp_path / ".lock").write_text("")
    with pytest.raises(DirectoryLocked, match="another process"):
        DirectoryLock(tmp_path)
    lock.release()
