"""The connector is used only as it was checked; what is missing or damaged is said with what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from analytics import jars
from analytics.faults import StatsFault


def test_what_is_missing_is_named_with_the_word_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(StatsFault, match=r"kafka-clients.*`seckill stats fetch` gets it"):
        jars.present(tmp_path)


def test_a_damaged_jar_is_not_used(tmp_path: Path) -> None:
    for name in jars.SUMS:
        (tmp_path / name).write_bytes(b"not what was checked")
    with pytest.raises(StatsFault, match="damaged"):
        jars.present(tmp_path)


def test_a_resolver_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "noise\nException: UNRESOLVED DEPENDENCIES\nmore")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(StatsFault, match="UNRESOLVED"):
        jars.fetch(lambda _: None, tmp_path / "new")


def test_no_address_of_a_registry_is_in_the_call() -> None:
    assert not any("://" in word or "repositories" in word for call in jars.CALLS for word in call)
