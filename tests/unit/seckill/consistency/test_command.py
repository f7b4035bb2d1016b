"""What is asked of the report beyond what the crowd has declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from seckill.consistency import command
from seckill.consistency.manifest import Manifest


@pytest.mark.parametrize(("words", "off"), [((), {"S", "R"}), (("--statistics",), {"R"})])
def test_sparks_counts_are_judged_where_that_is_asked_though_the_crowd_declared_them_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], off: set[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    declared = {"version": 1, "runs": [], "off": ["analytics", "redis"], "faults": []}
    (tmp_path / "evidence" / "manifest.json").write_text(json.dumps(declared))
    asked: list[Manifest] = []

    def collect(_: object, manifest: Manifest, *__: object) -> NoReturn:
        asked.append(manifest)
        raise RuntimeError("that was all")

    monkeypatch.setattr(command, "collect", collect)
    command.main(["--data", str(tmp_path), *words])
    assert [manifest.off for manifest in asked] == [off]


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "F", "trace", "X"),
        ("trace", "X", "--data", "F"),
        ("trace", "--data", "F", "X"),
        ("--patience", "9", "trace", "X", "--data", "F"),
    ],
)
def test_options_may_stand_before_or_after_the_word(words: tuple[str, ...]) -> None:
    chosen = command._parser().parse_args(words)
    assert (chosen.data, chosen.id, chosen.every) == (Path("F"), "X", 1.0)
    assert chosen.patience == (9.0 if "--patience" in words else 60.0)


def test_what_is_said_after_the_word_wins_over_what_was_said_before_it() -> None:
    chosen = command._parser().parse_args(["--data", "before", "selftest", "--data", "after", "--generate"])
    assert (chosen.data, chosen.generate, chosen.statistics) == (Path("after"), True, False)


def test_a_selftest_without_a_run_says_what_to_do_and_asks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SECKILL_DATABASE_URL", raising=False)
    monkeypatch.setattr(command, "collect", None)  # to ask would be an error, and end with 3
    assert command.main(["selftest", "--data", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert f"no stack has run in {tmp_path}" in told
    assert "seckill up" in told
    assert "loadtest.rush" in told
