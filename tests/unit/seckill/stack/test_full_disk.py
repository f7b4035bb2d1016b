"""A disk that is full for one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from seckill.stack.full_disk import full_disk

WRITER = """
import sys
for line in sys.stdin:
    try:
        with open(sys.argv[1], "ab") as file:
            file.write(line.encode())
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_the_process_can_write_again_when_the_disk_is_no_longer_full(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def write(line: str) -> str:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        assert write("one") == "written"
        with full_disk(process.pid):
            assert write("two") == "File too large"
            assert (tmp_path / "other").write_text("only this process's disk is full")
        assert write("three") == "written"
        process.stdin.close()
    assert path.read_text() == "one\nthree\n"


def test_the_process_may_end_meanwhile() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with full_disk(process.pid):
        process.communicate(b"\n")
    with pytest.raises(ProcessLookupError), full_disk(process.pid):
        pass
