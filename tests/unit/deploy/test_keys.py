"""Secrets of a compose project: generated once, kept, and readable by others only where another image needs them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deploy import keys


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def values(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


def test_the_first_run_generates_a_different_value_for_each_secret(tmp_path: Path) -> None:
    keys.write_secrets(tmp_path, {})
    made = values(tmp_path)
    assert set(made) == {*keys.NAMES, "database_url"}
    assert len({made[name] for name in keys.NAMES}) == len(keys.NAMES)
    assert all(len(made[name]) >= 40 for name in keys.NAMES)
    assert made["database_url"] == f"postgresql://seckill:{made['database_password']}@postgres:5432/seckill"


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    keys.write_secrets(tmp_path, {})
    before = values(tmp_path)
    assert keys.write_secrets(tmp_path, {}) == []
    assert values(tmp_path) == before


def test_two_projects_have_different_keys(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        keys.write_secrets(folder, {})
    assert values(folders[0])["secret_key"] != values(folders[1])["secret_key"]


def test_a_secret_from_the_environment_replaces_an_older_one(tmp_path: Path) -> None:
    keys.write_secrets(tmp_path, {"SECRET_KEY": "mine"})
    assert values(tmp_path)["secret_key"] == "mine"
    assert keys.write_secrets(tmp_path, {"SECRET_KEY": "newer", "PROVIDER_SECRET": ""}) == ["secret_key"]
    assert values(tmp_path)["secret_key"] == "newer"


def test_the_password_of_an_existing_database_stays(tmp_path: Path) -> None:
    keys.write_secrets(tmp_path, {"DATABASE_PASSWORD": "first"})
    assert keys.write_secrets(tmp_path, {"DATABASE_PASSWORD": "second"}) == []
    assert values(tmp_path)["database_url"].startswith("postgresql://seckill:first@")


def test_a_missing_url_is_written_by_the_next_run(tmp_path: Path) -> None:
    keys.write_secrets(tmp_path, {})
    before = values(tmp_path)
    (tmp_path / "database_url").unlink()
    assert keys.write_secrets(tmp_path, {}) == ["database_url"]
    assert values(tmp_path) == before


@pytest.mark.parametrize("name", ["secret_key", "provider_secret", "database_url"])
def test_our_own_secrets_are_readable_only_by_our_user(tmp_path: Path, name: str) -> None:
    keys.write_secrets(tmp_path, {})
    assert modes(tmp_path)[name] == 0o400


def test_the_payment_provider_gets_only_a_copy_of_its_own_secret(tmp_path: Path) -> None:
    folder, sandbox = tmp_path / "all", tmp_path / "sandbox"
    folder.mkdir()
    sandbox.mkdir()
    keys.write_secrets(folder, {"PROVIDER_SECRET": "first"})
    keys.share_secret(folder, sandbox)
    assert [path.name for path in sandbox.iterdir()] == ["provider_secret"]
    keys.write_secrets(folder, {"PROVIDER_SECRET": "second"})
    keys.share_secret(folder, sandbox)
    assert (sandbox / "provider_secret").read_text().strip() == "second"
