"""The network between brokers: the settings with which brokers reach each other through the relay."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mqcore.config import parse_config
from seckill.config.environment import BadEnvironment
from seckill.stack import mqcore_brokers
from seckill.stack.broker_network import (
    NODES,
    NetworkPorts,
)


def test_a_broker_listens_on_its_own_ports_and_is_reached_through_the_relay() -> None:
    ports = NetworkPorts(25_000)
    for number in NODES:
        settings = ports.settings(number, 20_000 + number, 21_000 + number) | {
            "node.id": str(number), "controller.listener.names": "CONTROLLER",
        }  # fmt: skip
        config = parse_config("", [f"{name}={value}" for name, value in settings.items()])
        listeners = {each.name: each for each in config.listener_list()}
        relayed = {route.port: route.target_port for route in ports.routes({n: 21_000 + n for n in NODES})}
        assert config.inter_broker_listener == "REPLICATION"
        assert listeners["PLAINTEXT"].advertised_port == listeners["PLAINTEXT"].port == 20_000 + number
        for name in ("REPLICATION", "CONTROLLER"):
            assert relayed[listeners[name].advertised_port] == listeners[name].port
        assert config.voters()[number].port == listeners["CONTROLLER"].advertised_port


def test_the_settings_of_a_secure_cluster_name_the_brokers_and_use_its_protocol_everywhere() -> None:
    ports = NetworkPorts(25_000, "SASL_SSL", "localhost", has_names=True)
    settings = ports.settings(2, 20_002, 21_002)
    assert (
        settings["listeners"] == "SASL_SSL://localhost:20002,REPLICATION://localhost:25001,CONTROLLER://localhost:21002"
    )
    assert settings["advertised.listeners"].startswith("SASL_SSL://localhost:20002,REPLICATION://broker-2:25004,")
    assert settings["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,REPLICATION:SASL_SSL,CONTROLLER:SASL_SSL"
    assert settings["controller.quorum.voters"] == "1@broker-1:25006,2@broker-2:25007,3@broker-3:25008"


def test_the_stack_gives_its_brokers_a_network_if_it_is_told_the_first_port(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mqcore_brokers.network_ports({}) is None
    network = mqcore_brokers.network_ports({mqcore_brokers.NETWORK_VARIABLE: "25000"})
    words = mqcore_brokers.command(Path("data"), 20_000, 21_000, 3, 2, network)
    assigned = dict(value.split("=", 1) for word, value in pairwise(words) if word == "--set")
    assert assigned["inter.broker.listener.name"] == "REPLICATION"
    assert assigned["controller.quorum.voters"] == "1@127.0.0.1:25006,2@127.0.0.1:25007,3@127.0.0.1:25008"
    with pytest.raises(BadEnvironment, match="must be a port, got 'here'"):
        mqcore_brokers.network_ports({mqcore_brokers.NETWORK_VARIABLE: "here"})
