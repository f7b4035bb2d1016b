"""Labs as a reader runs them: real processes, a verdict, and nothing left behind. `make night` runs all of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seckill.lab.labs.lab import Variant
from seckill.stack.stack_process import clean_environment
from tests.services import until

COMMAND = [sys.executable, "-m", "seckill.cli", "lab", "run"]


def run_lab(folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, what it printed as JSON, and what it printed beside it."""
    command = [*COMMAND, *words, "--json", "--picture", str(folder / "picture.svg")]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=110, cwd=folder)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.mark.parametrize("number", ["1", "6", "14"])
def test_the_broken_variant_shows_damage_and_the_real_code_none(tmp_path: Path, number: str) -> None:
    code, said, progress = run_lab(tmp_path, number)
    assert code == 0, progress
    damage = {variant: said["variants"][variant]["damage"] for variant in Variant}
    assert damage[Variant.BROKEN] > 0 and damage[Variant.FIXED] == 0
    assert said["as_expected"] and said["code"] and said["test"]
    assert (tmp_path / "picture.svg").read_text().startswith("<svg")


def test_an_interrupted_lab_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    with (tmp_path / "output").open("w") as output:
        running = subprocess.Popen(
            [*COMMAND, "1", "--data", str(folder)], stdout=output, stderr=output, env=clean_environment(), cwd=tmp_path
        )
    until(lambda: "broken:" in (tmp_path / "output").read_text(), "the lab to begin")
    assert processes_of(folder), "its servers run"
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
    assert "interrupted" in (tmp_path / "output").read_text()
    assert processes_of(folder) == []


def processes_of(folder: Path) -> list[str]:
    """Commands that name the lab's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and "lab run" not in command:
            found.append(command)
    return found
