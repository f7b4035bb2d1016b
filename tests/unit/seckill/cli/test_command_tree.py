"""The shape of the command line: every command explains itself, and `--data` means the same everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from seckill.cli import context
from seckill.cli.__main__ import command_tree, main
from tests.architecture.commands import usage_error

HEAVY = ("django", "kafka", "pyspark", "rich.console", "altair", "psycopg")


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))


ALL = list(commands(command_tree()))


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_has_a_help_text_and_takes_the_stacks_folder(path: tuple[str, ...], command: Any) -> None:
    assert command.help, f"seckill {' '.join(path)} --help says nothing"
    assert any("--data" in option.opts for option in command.params)


def test_help_loads_no_heavy_library() -> None:
    script = "import sys; from seckill.cli.__main__ import main; main(['--help'])"
    script += "; print(set(sys.argv) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script, *HEAVY], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("words", "variable", "folder"),
    [
        (["status", "--data", "here"], "there", "here"),
        (["--data", "here", "status"], "there", "here"),
        (["--data", "outside", "status", "--data", "inside"], "", "inside"),
        (["status"], "there", "there"),
        (["status"], "", "var/stack"),
    ],
)
def test_the_folder_comes_from_the_option_or_the_variable_or_the_default(
    monkeypatch: pytest.MonkeyPatch, words: list[str], variable: str, folder: str
) -> None:
    monkeypatch.setenv(context.DATA_VARIABLE, variable)
    asked: list[Path] = []

    def send_command(data: Path, order: object, *, as_json: bool) -> int:
        asked.append(data)
        return 0

    monkeypatch.setattr("seckill.stack.up.send_command", send_command)
    assert main(words) == 0
    assert asked == [Path(folder)]


WORDS_OF_SCRIPTS = """
letters list --all --json
letters replay 3 4 --yes --quarantined
letters discard --group orders --because x
messages again 7
report trace ann --json -
report --live --every 2
report selftest --generate --write f
faults run 41 42 --write w --data d
stats replay --from 0
offsets resume g t 0 --because x --at 5
reconcile --dry-run
reconcile close 3 --reason x
switch off notify.sms analytics
slots move 1 2 --to 3
start orders --with SECKILL_FAULT=x:once
up --port gateway=1 --scale inventory=2 --kafka h:1
sweep orders --metrics-port 9100 --metrics-host 0.0.0.0
manage migrate --verbosity 0
sale adjust 1 phone -5
"""


@pytest.mark.parametrize("line", WORDS_OF_SCRIPTS.strip().splitlines())
def test_the_words_that_scripts_use_stay(line: str) -> None:
    assert usage_error(line.split()) == ""
