"""Codec: the settings that contain addresses: listeners, and the controllers of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mqcore.config_values import INT_MAX, BadConfig, abbreviated, host_and_port


class Listener(NamedTuple):
    """An address to listen on, and the address that clients are told to connect to."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int


class ControllerAddress(NamedTuple):
    host: str
    port: int


def parse_listeners(text: str, setting_name: str) -> dict[str, tuple[str, int]]:
    addresses: dict[str, tuple[str, int]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = entry.partition("://")
        if not separator or not name:
            raise BadConfig(f"{setting_name} must be NAME://HOST:PORT, got {entry!r}")
        if name.upper() in addresses:
            raise BadConfig(f"{setting_name} contains {name} twice; every listener needs a name of its own")
        addresses[name.upper()] = host_and_port(address, setting_name)
    if not addresses:
        raise BadConfig(f"{setting_name} must not be empty; the default is PLAINTEXT://127.0.0.1:9092")
    return addresses


def check_protocols(text: str, bound: Mapping[str, object]) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        if protocol.upper() != "PLAINTEXT":
            raise BadConfig(f"listener.security.protocol.map: only PLAINTEXT is supported, got {entry!r}")
        if name.upper() not in bound:
            continue  # as in Kafka, the map may contain listeners that are not used


def parse_voters(text: str, setting_name: str) -> dict[int, ControllerAddress]:
    """`1@host:port,2@host:port,…`: the addresses of the controllers by their node ids."""
    addresses: dict[int, ControllerAddress] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node, at, address = entry.partition("@")
        if not at or not (node.isascii() and node.isdigit()) or len(node) > 10 or int(node) > INT_MAX:
            raise BadConfig(f"{setting_name} must be ID@HOST:PORT, got {abbreviated(entry)!r}")
        if int(node) in addresses:
            raise BadConfig(f"{setting_name} contains node {int(node)} twice")
        addresses[int(node)] = ControllerAddress(*host_and_port(address, setting_name))
    return addresses
