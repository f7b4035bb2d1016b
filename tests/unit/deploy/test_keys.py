"""Secrets of a compose project: made once, kept, and never for everybody to read but where another image has to."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deploy import keys


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def values(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


def test_the_first_time_makes_up_all_of_them_each_another_one(tmp_path: Path) -> None:
    keys.make(tmp_path, {})
    made = values(tmp_path)
    assert set(made) == {*keys.NAMES, "database_url"}
    assert len({made[name] for name in keys.NAMES}) == len(keys.NAMES)
    assert all(len(made[name]) >= 40 for name in keys.NAMES)
    assert made["database_url"] == f"postgresql://seckill:{made['database_password']}@postgres:5432/seckill"


def test_the_second_time_changes_nothing(tmp_path: Path) -> None:
    keys.make(tmp_path, {})
    before = values(tmp_path)
    assert keys.make(tmp_path, {}) == []
    assert values(tmp_path) == before


def test_two_projects_have_two_keys(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        keys.make(folder, {})
    assert values(folders[0])["secret_key"] != values(folders[1])["secret_key"]


def test_one_that_is_given_is_taken_and_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    keys.make(tmp_path, {"SECRET_KEY": "mine"})
    assert values(tmp_path)["secret_key"] == "mine"
    assert keys.make(tmp_path, {"SECRET_KEY": "newer", "PROVIDER_SECRET": ""}) == ["secret_key"]
    assert values(tmp_path)["secret_key"] == "newer"


def test_the_password_of_a_database_that_exists_stays(tmp_path: Path) -> None:
    keys.make(tmp_path, {"DATABASE_PASSWORD": "first"})
    assert keys.make(tmp_path, {"DATABASE_PASSWORD": "second"}) == []
    assert values(tmp_path)["database_url"].startswith("postgresql://seckill:first@")


def test_a_url_that_was_not_written_any_more_is_written_the_next_time(tmp_path: Path) -> None:
    keys.make(tmp_path, {})
    before = values(tmp_path)
    (tmp_path / "database_url").unlink()
    assert keys.make(tmp_path, {}) == ["database_url"]
    assert values(tmp_path) == before


@pytest.mark.parametrize("name", ["secret_key", "provider_secret", "database_url"])
def test_ours_are_for_our_own_user_alone(tmp_path: Path, name: str) -> None:
    keys.make(tmp_path, {})
    assert modes(tmp_path)[name] == 0o400


def test_the_payment_provider_gets_a_copy_of_its_secret_and_no_other(tmp_path: Path) -> None:
    folder, sandbox = tmp_path / "all", tmp_path / "sandbox"
    folder.mkdir()
    sandbox.mkdir()
    keys.make(folder, {"PROVIDER_SECRET": "first"})
    keys.share(folder, sandbox)
    assert [path.name for path in sandbox.iterdir()] == ["provider_secret"]
    keys.make(folder, {"PROVIDER_SECRET": "second"})
    keys.share(folder, sandbox)
    assert (sandbox / "provider_secret").read_text().strip() == "second"
