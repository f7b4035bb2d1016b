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
