"""The environment: what is set, what stands in a file, what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.environment import DEVELOPMENT_SECRET, BadEnvironment, Environment, read


def test_nothing_set_means_a_small_stack_of_a_developer() -> None:
    assert read({"PATH": "/bin"}) == Environment()
    assert Environment().development


def test_an_unknown_name_stops_the_start() -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_SECRET is unknown"):
        read({"SECKILL_SECRET": "x"})


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("nobody knows this\n")
    assert read({"SECKILL_SECRET_KEY_FILE": str(path)}).secret_key == "nobody knows this"


def test_a_number_may_stand_in_a_file_and_is_checked_there_too(tmp_path: Path) -> None:
    path = tmp_path / "seconds"
    path.write_text("30\n")
    assert read({"SECKILL_PAYMENT_TTL_S_FILE": str(path)}).payment_ttl_s == 30
    path.write_text("soon\n")
    with pytest.raises(BadEnvironment, match="'soon' is no int"):
        read({"SECKILL_PAYMENT_TTL_S_FILE": str(path)})


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_SECRET_KEY_FILE: .*cannot be read"):
        read({"SECKILL_SECRET_KEY_FILE": str(tmp_path / "nothing")})


def test_a_value_and_a_file_for_it_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironment, match="both set"):
        read({"SECKILL_SECRET_KEY": "a", "SECKILL_SECRET_KEY_FILE": str(tmp_path / "b")})


def test_the_file_by_which_a_process_says_that_it_is_ready_is_not_read() -> None:
    assert read({"SECKILL_READY_FILE": "/nowhere/ready"}) == Environment()


@pytest.mark.parametrize(
    ("variables", "is_development"),
    [
        ({}, True),
        ({"SECKILL_SECRET_KEY": DEVELOPMENT_SECRET}, True),
        ({"SECKILL_SECRET_KEY": "another"}, False),
        ({"SECKILL_SECRET_KEY": "another", "SECKILL_DEVELOPMENT": "true"}, True),
        ({"SECKILL_DEVELOPMENT": "false"}, False),
    ],
)
def test_a_key_of_its_own_ends_development_unless_it_is_said(variables: dict[str, str], is_development: bool) -> None:
    assert read(variables).development is is_development


def test_faults_are_for_development_only() -> None:
    with pytest.raises(BadEnvironment, match="development only"):
        read({"SECKILL_SECRET_KEY": "another", "SECKILL_FAULT": "inventory.after_commit:once"})
    fault = read({"SECKILL_SECRET_KEY": "another", "SECKILL_DEVELOPMENT": "1", "SECKILL_FAULT": "a:once"}).fault
    assert fault == "a:once"
