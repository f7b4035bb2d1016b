"""The environment: what is set, what stands in a file, what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.environment import DEVELOPMENT_SECRET, BadEnvironment, Environment, read

ROOT = Path(__file__).parents[3]
KEY, OTHER_KEY = "k" * 32, "p" * 32
PRODUCTION = {
    "SECKILL_SECRET_KEY": KEY,
    "SECKILL_PROVIDER_SECRET": OTHER_KEY,
    "SECKILL_PUBLIC_URL": "https://shop.example",
}


def test_nothing_set_means_a_small_stack_of_a_developer() -> None:
    assert read({"PATH": "/bin"}) == Environment()
    assert Environment().development


def test_an_unknown_name_stops_the_start() -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_SECRET is unknown"):
        read({"SECKILL_SECRET": "x"})


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    others = {name: value for name, value in PRODUCTION.items() if name != "SECKILL_SECRET_KEY"}
    assert read(others | {"SECKILL_SECRET_KEY_FILE": str(path)}).secret_key == KEY


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
        (PRODUCTION, False),
        ({"SECKILL_SECRET_KEY": "another", "SECKILL_DEVELOPMENT": "true"}, True),
        (PRODUCTION | {"SECKILL_DEVELOPMENT": "false"}, False),
    ],
)
def test_a_key_of_its_own_ends_development_unless_it_is_said(variables: dict[str, str], is_development: bool) -> None:
    assert read(variables).development is is_development


@pytest.mark.parametrize(
    ("name", "values"), [("SECKILL_ADDRESS_BITS_V4", ("7", "33")), ("SECKILL_ADDRESS_SHARE_PERCENT", ("-1", "101"))]
)
def test_a_number_out_of_its_range_stops_the_start(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        with pytest.raises(BadEnvironment, match=f"{name} must be .* got {value}"):
            read({name: value})


def test_faults_and_debug_pages_are_for_development_only() -> None:
    for name, value in (("SECKILL_FAULT", "inventory.after_commit:once"), ("SECKILL_DEBUG", "true")):
        with pytest.raises(BadEnvironment, match=f"{name} is for development only"):
            read(PRODUCTION | {name: value})
    fault = read({"SECKILL_SECRET_KEY": "another", "SECKILL_DEVELOPMENT": "1", "SECKILL_FAULT": "a:once"}).fault
    assert fault == "a:once"


@pytest.mark.parametrize("name", ["SECKILL_SECRET_KEY", "SECKILL_PROVIDER_SECRET"])
@pytest.mark.parametrize(
    ("secret", "complaint"),
    [
        (None, "published development key"),
        (DEVELOPMENT_SECRET, "published development key"),
        (f" {DEVELOPMENT_SECRET}\n", "published development key"),
        ("", "has 0 bytes"),
        ("k" * 31, "has 31 bytes"),
        (" " * 20 + "k" * 20, "has 20 bytes"),
    ],
)
def test_production_refuses_a_key_that_is_public_or_short(name: str, secret: str | None, complaint: str) -> None:
    variables = PRODUCTION | {"SECKILL_DEVELOPMENT": "false", name: secret or ""}
    if secret is None:
        del variables[name]
    with pytest.raises(BadEnvironment, match=f"{name} .*{complaint}"):
        read(variables)


def test_production_refuses_a_public_url_without_tls() -> None:
    for url in ("http://shop.example", "shop.example", ""):
        with pytest.raises(BadEnvironment, match="SECKILL_PUBLIC_URL"):
            read(PRODUCTION | {"SECKILL_PUBLIC_URL": url})


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "import django; django.setup(); from seckill import tokens; print(tokens.sealed('ticket', 'x'))"],
        ["manage.py", "check"],
        ["-m", "seckill.cli", "up", "--data", "no-such-folder"],
        ["-m", "seckill.cli", "sweep", "orders"],
    ],
)
def test_a_production_process_without_keys_ends_with_one_line_that_names_the_variable(command: list[str]) -> None:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "DJANGO_"))}
    variables = base | {"SECKILL_DEVELOPMENT": "false", "DJANGO_SETTINGS_MODULE": "seckill.settings"}
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode != 0 and ended.stdout == ""
    [line] = ended.stderr.strip().splitlines()
    assert line.startswith("seckill: SECKILL_SECRET_KEY is not set")
