"""The configuration from environment variables: values, files with values, and what stops the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seckill.config.environment import DEVELOPMENT_SECRET, BadEnvironment, Environment, read

ROOT = Path(__file__).parents[4]
KEY, OTHER_KEY = "k" * 32, "p" * 32
PRODUCTION = {
    "SECKILL_SECRET_KEY": KEY,
    "SECKILL_PROVIDER_SECRET": OTHER_KEY,
    "SECKILL_PUBLIC_URL": "https://shop.example",
}


def test_without_variables_it_is_a_developers_stack() -> None:
    assert read({"PATH": "/bin"}) == Environment()
    assert Environment().development


def test_an_unknown_name_stops_the_start_and_a_similar_name_is_suggested() -> None:
    with pytest.raises(BadEnvironment, match=r"SECKILL_SECRET_KY is unknown; did you mean SECKILL_SECRET_KEY\?"):
        read({"SECKILL_SECRET_KY": "x"})
    with pytest.raises(BadEnvironment, match="SECKILL_COLOUR is unknown; known are SECKILL_ADDRESS_BITS_V4, "):
        read({"SECKILL_COLOUR": "red"})


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("SECKILL_DEBUG", "maybe", "must be true, false, 1 or 0, got 'maybe'"),
        ("SECKILL_PAYMENT_TTL_S", "ten", "must be an integer, got 'ten'"),
        ("SECKILL_MESSAGE_LANGUAGE", "zh", "must be en or zh-hans, got 'zh'"),
        ("SECKILL_GATE_REDIS_URL", "http://x", "must begin with redis:// or rediss:// or unix:// or .*, got http://"),
        ("SECKILL_DATABASE_URL", "mysql://x", "must begin with postgresql:// or postgres://, got mysql://"),
    ],
)
def test_a_malformed_value_is_named_with_what_is_allowed(name: str, value: str, rule: str) -> None:
    with pytest.raises(BadEnvironment, match=f"{name} {rule}"):
        read({name: value})


def test_a_password_in_a_refused_address_is_not_printed() -> None:
    with pytest.raises(BadEnvironment) as refused:
        read({"SECKILL_DATABASE_URL": "mysql://ann:hush@host/db"})  # pragma: allowlist secret
    assert "hush" not in str(refused.value)


def test_a_secret_can_be_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    others = {name: value for name, value in PRODUCTION.items() if name != "SECKILL_SECRET_KEY"}
    assert read(others | {"SECKILL_SECRET_KEY_FILE": str(path)}).secret_key == KEY


def test_a_number_can_be_read_from_a_file_and_is_checked_there_too(tmp_path: Path) -> None:
    path = tmp_path / "seconds"
    path.write_text("30\n")
    assert read({"SECKILL_PAYMENT_TTL_S_FILE": str(path)}).payment_ttl_s == 30
    path.write_text("soon\n")
    with pytest.raises(BadEnvironment, match="must be an integer, got 'soon'"):
        read({"SECKILL_PAYMENT_TTL_S_FILE": str(path)})


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_SECRET_KEY_FILE: .*cannot be read"):
        read({"SECKILL_SECRET_KEY_FILE": str(tmp_path / "nothing")})


def test_a_value_and_a_file_for_the_same_variable_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadEnvironment, match="both set"):
        read({"SECKILL_SECRET_KEY": "a", "SECKILL_SECRET_KEY_FILE": str(tmp_path / "b")})


def test_the_ready_file_is_not_read_as_a_value() -> None:
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
def test_a_key_of_ones_own_means_production_unless_development_is_set(
    variables: dict[str, str], is_development: bool
) -> None:
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
        ["-c", "import django; django.setup(); from seckill.web import tokens; print(tokens.sealed('ticket', 'x'))"],
        ["manage.py", "check"],
        ["-m", "seckill.cli", "up", "--data", "{folder}"],
        ["-m", "seckill.cli", "sweep", "orders"],
    ],
)
def test_a_production_process_without_keys_ends_with_one_line_that_names_the_variable(
    command: list[str], tmp_path: Path
) -> None:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "DJANGO_"))}
    variables = base | {"SECKILL_DEVELOPMENT": "false", "DJANGO_SETTINGS_MODULE": "seckill.config.settings"}
    ended = subprocess.run(
        [sys.executable, *(word.replace("{folder}", str(tmp_path)) for word in command)],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0 and ended.stdout == ""
    [line] = ended.stderr.strip().splitlines()
    assert line.startswith("seckill: SECKILL_SECRET_KEY is not set")
