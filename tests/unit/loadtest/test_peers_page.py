"""The table of the designs: runs that are kept count with those that are added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.peers import __main__ as peers
from loadtest.peers.measuring import Measured


def test_runs_that_are_added_count_with_those_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([100.0, 50.0, 300.0, 70.0])
    folders: list[Path] = []

    def measure(design: Any, folder: Path, *_: Any, **__: Any) -> Measured:
        folders.append(folder)
        broken = {} if design.name == "full" else {"I1": len(folders)}
        return Measured(design.name, 10, next(rates), 20, 30, 1.5, 5, 0, broken)

    monkeypatch.setattr(peers, "measure", measure)
    written, page = tmp_path / "peers.json", tmp_path / "peers.md"
    words = ["--design", "full", "--design", "naive", "--repeat", "1", "--add", "--data", str(tmp_path)]
    for _ in range(2):
        assert peers.main([*words, "--json", str(written), "--markdown", str(page)]) == 0
    assert len({*folders}) == 4, "each has a stack of its own"
    runs = json.loads(written.read_text())["runs"]
    assert (len(runs["full"]), len(runs["naive"])) == (2, 2)
    told = page.read_text()
    assert "medians of 2" in told
    assert "| full | 200 | 1.00 | 20 | 30 | 1.5 | 0 | none |" in told
    assert "| naive | 60 | 0.30 | 20 | 30 | 1.5 | 0 | I1 ×4 |" in told
    with pytest.raises(SystemExit):
        peers.main(["--add"])
