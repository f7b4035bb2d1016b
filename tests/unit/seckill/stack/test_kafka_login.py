"""Each process of a stack logs in to an external Kafka as its own service, and the others not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.config.environment import BadEnvironment
from seckill.config.kafka_properties import KafkaConfig
from seckill.stack.kafka_login import with_login
from seckill.stack.services import Layout
from seckill.stack.up import _check_kafka

USER = "SECKILL_KAFKA_SASL_USERNAME"
CONFIG = KafkaConfig({USER: "operator"}, {"inventory": {USER: "stock"}})


def test_each_process_gets_the_login_of_its_service_and_an_operators_command_the_main_one() -> None:
    outside = {"PATH": "/bin", USER: "from the shell", "SECKILL_KAFKA_SASL_PASSWORD_FILE": "x"}
    logins = {name: with_login(outside, CONFIG, name) for name in ("relay.inventory", "orders", "celery", None)}
    assert {name: login.get(USER) for name, login in logins.items()} == {
        "relay.inventory": "stock", "orders": "operator", "celery": None, None: "operator",
    }  # fmt: skip
    assert all(login["PATH"] == "/bin" for login in logins.values())
    assert not any("SECKILL_KAFKA_SASL_PASSWORD_FILE" in login for login in logins.values())


def test_without_a_file_the_environments_login_reaches_the_clients_of_kafka_only() -> None:
    outside = {"PATH": "/bin", USER: "ann"}
    assert with_login(outside, None, "orders") == outside == with_login(outside, None, None)
    assert with_login(outside, None, "postgres") == {"PATH": "/bin"}


def test_the_operators_login_is_kept_with_the_stacks_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path, bootstrap_servers="k:9093", kafka_config=CONFIG)
    assert layout.addresses()[USER] == "operator"
    for name, value in {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN", "SASL_PASSWORD": "x"}.items():
        monkeypatch.setenv(f"SECKILL_KAFKA_{name}", value)
    monkeypatch.setenv(USER, "ann")
    assert Layout(tmp_path, bootstrap_servers="k:9093").addresses()[USER] == "ann"


def test_a_login_without_a_cluster_is_refused(tmp_path: Path) -> None:
    _check_kafka(Layout(tmp_path))
    with pytest.raises(BadEnvironment, match="a login for Kafka needs the cluster's address: --kafka"):
        _check_kafka(Layout(tmp_path, kafka_config=CONFIG))
    with pytest.raises(BadEnvironment, match="with --kafka there are none"):
        _check_kafka(Layout(tmp_path, bootstrap_servers="k:9093", brokers=3))
