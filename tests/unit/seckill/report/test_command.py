"""The options of `seckill report`: where they may stand, and which of them change what is collected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from seckill.cli import context, report
from seckill.cli.__main__ import main
from seckill.cli.report import ReportOptions
from seckill.report.manifest import Manifest


@pytest.mark.parametrize(("words", "off"), [((), {"S", "R"}), (("--statistics",), {"R"})])
def test_sparks_counts_are_judged_on_demand_even_if_the_run_declared_them_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], off: set[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    declared = {"version": 1, "runs": [], "off": ["analytics", "redis"], "faults": []}
    (tmp_path / "evidence" / "manifest.json").write_text(json.dumps(declared))
    collected: list[Manifest] = []

    def collect(_: object, manifest: Manifest, *__: object) -> NoReturn:
        collected.append(manifest)
        raise RuntimeError("stop here")

    monkeypatch.setattr("seckill.report.sources.collect.collect", collect)
    assert main(["report", "--data", str(tmp_path), *words]) == 3
    assert [manifest.declared_off for manifest in collected] == [off]


class Call:
    """What the report would do, instead of doing it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(report, "_with_evidence", self._record)
        monkeypatch.setattr(report, "_has_run", lambda: True)
        self.options: ReportOptions
        self.folder: Path

    def _record(self, options: ReportOptions, command: object) -> int:
        self.options, self.folder = options, context.data_folder()
        return 0


@pytest.mark.parametrize(
    "words",
    [
        ("report", "--data", "F", "trace", "X"),
        ("--data", "F", "report", "trace", "X"),
        ("report", "trace", "X", "--data", "F"),
        ("report", "trace", "--data", "F", "X"),
        ("report", "--patience", "9", "trace", "X", "--data", "F"),
        ("report", "trace", "X", "--patience", "9", "--data", "F"),
    ],
)
def test_options_may_stand_before_or_after_the_subcommand(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    call = Call(monkeypatch)
    assert main(words) == 0
    assert (call.folder, call.options.every) == (Path("F"), 1.0)
    assert call.options.patience == (9.0 if "--patience" in words else 60.0)


def test_an_option_after_the_subcommand_wins_over_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(monkeypatch)
    assert main(["report", "--data", "before", "selftest", "--data", "after", "--generate"]) == 0
    assert (call.folder, call.options.statistics) == (Path("after"), False)


def test_a_selftest_without_a_run_says_what_to_do_and_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SECKILL_DATABASE_URL", raising=False)
    monkeypatch.setattr("seckill.report.sources.collect.collect", None)  # reading would be an error and exit with 3
    assert main(["report", "selftest", "--data", str(tmp_path)]) == 2
    advice = capsys.readouterr().err
    assert f"no stack has run in {tmp_path}" in advice
    assert "seckill up" in advice
    assert "loadtest.rush" in advice


@pytest.mark.parametrize("option", ["--html", "--json", "--junit"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call(monkeypatch)
    assert main(["report", option, str(tmp_path / "missing" / "out")]) == 3
    assert f"there is no folder {tmp_path / 'missing'}" in capsys.readouterr().err
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    assert main(["report", option, str(tmp_path / "out")]) == 3
    assert f"chmod -R a+rwX {tmp_path}" in capsys.readouterr().err
    assert not hasattr(call, "options")
