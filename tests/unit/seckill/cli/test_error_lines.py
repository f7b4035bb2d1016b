"""Whatever an operator can mend is one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.cli import context
from seckill.cli.__main__ import main

CLOSED_PORT = "postgresql://seckill@127.0.0.1:1/seckill"
ORDER = "57437eb3-6d1f-59ca-aeaf-658467b40766"


def run(*words: str, **variables: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "seckill.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [("audit",), ("refund", ORDER), ("manage", "migrate"), ("sale", "list"), ("switch", "show")],
    ids=lambda words: str(words[0]),
)
def test_a_missing_database_is_reported_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, errors = run("--data", str(tmp_path), *words, SECKILL_DATABASE_URL=CLOSED_PORT)
    assert code == context.UNAVAILABLE
    assert errors.splitlines()[-1].startswith("seckill: the database is unavailable (is the stack up?): ")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    "words", [("up",), ("sale", "list"), ("manage", "check"), ("stats", "report"), ("consume", "orders")]
)
def test_an_unknown_variable_is_reported_in_one_line_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "stack"
    code, errors = run("--data", str(folder), *words, SECKILL_COLOUR="red")
    assert code == context.USAGE_ERROR
    [line] = errors.splitlines()
    assert line.startswith("seckill: SECKILL_COLOUR is unknown")
    assert not folder.exists()


def test_a_malformed_value_names_the_variable_and_the_value(tmp_path: Path) -> None:
    code, errors = run("up", "--data", str(tmp_path / "stack"), SECKILL_PAYMENT_TTL_S="ten")
    assert (code, len(errors.splitlines())) == (context.USAGE_ERROR, 1)
    assert "SECKILL_PAYMENT_TTL_S" in errors and "'ten'" in errors
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("refund", "the-phone"), "ORDER must be the id of an order, a UUID, got 'the-phone'"),
        (("reconcile", "close", "3"), "--reason"),
        (("dead-letters", "list", "--group", "crowd"), "'crowd' is not one of"),
        (("up", "--port", "gateway"), "'gateway' must be NAME=NUMBER"),
        (("demo", "--units", "0"), "at least one unit"),
        (("faults", "run", "1", "--first-port", "34000"), "--first-port must be 1024 to"),
        (("sell",), "sell"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_wrong_arguments_are_a_usage_error(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == context.USAGE_ERROR
    assert complaint in capsys.readouterr().err


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: only faults that an operator can mend are shortened to a line."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("seckill.stack.up.send_command", fail)
    with pytest.raises(ZeroDivisionError):
        main(["status"])
