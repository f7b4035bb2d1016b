"""Only verified jars are used; errors name what is missing or damaged, and what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from analytics import spark_jars
from analytics.faults import StatsFault


def test_the_error_names_missing_jars_and_the_command_that_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(StatsFault, match=r"kafka-clients.*run `seckill stats fetch` once"):
        spark_jars.checked_jars(tmp_path)


def test_a_damaged_jar_is_not_used(tmp_path: Path) -> None:
    for name in spark_jars.SUMS:
        (tmp_path / name).write_bytes(b"not what was checked")
    with pytest.raises(StatsFault, match="damaged"):
        spark_jars.checked_jars(tmp_path)


def test_the_error_of_a_failed_resolver_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "noise\nException: UNRESOLVED DEPENDENCIES\nmore")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(StatsFault, match="UNRESOLVED"):
        spark_jars.fetch_jars(lambda _: None, tmp_path / "new")


def test_the_resolver_is_called_without_a_registry_address() -> None:
    assert not any("://" in word or "repositories" in word for call in spark_jars.CALLS for word in call)
