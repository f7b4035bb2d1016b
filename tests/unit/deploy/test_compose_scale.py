"""More than one of everything: nothing in docker-compose.yml stops `docker compose up --scale SERVICE=N`.

tests/journeys/test_compose_scale.py does it with Docker.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator

import pytest

from seckill.messaging.topics import PARTITIONS
from tests.architecture.compose_file import PROJECT, ROOT, SERVICES, Service, parse_bytes

CONNECTIONS_OF_A_CONSUMER = 2
SCALED = {"gateway": 2, "inventory": 4, "orders": 4, "relay-inventory": 2, "relay-orders": 2, "celery": 2,
          "gateway-outcomes": 2, "inventory-settlement": 2, "notify-sms": 2, "notify-email": 2,
          "notify-push": 2}  # fmt: skip
"""What the journey starts."""
WRITABLE = {"/tmp"}


def obstacles(service: Service) -> Iterator[str]:
    """What two containers of a service cannot share."""
    if "container_name" in service:
        yield "both would have the same name"
    if service.get("ports"):
        yield "both would publish the same port"
    if isinstance(service["networks"], dict) and any("ipv4_address" in (each or {}) for each in
                                                     service["networks"].values()):  # fmt: skip
        yield "both would have the same address"
    if service.get("hostname"):
        yield "both would have the same host name"
    if any(not str(volume).endswith(":ro") for volume in service.get("volumes", ())):
        yield "both would write to the same volume"
    if any(re.search(r"node\.id|--(id|name|hostname)\b", str(word)) for word in service["command"]):
        yield "both would have the same id"
    if not set(service["tmpfs"]) <= WRITABLE:
        yield "they would need more writable folders"


@pytest.mark.parametrize("name", SCALED)
def test_a_service_can_run_more_than_once(name: str) -> None:
    assert list(obstacles(SERVICES[name])) == []


@pytest.mark.parametrize(
    ("spoil", "obstacle"),
    [
        (lambda service: service.update(container_name="gateway"), "name"),
        (lambda service: service.update(ports=["127.0.0.1:8000:8000"]), "port"),
        (lambda service: service.update(networks={"inside": {"ipv4_address": "10.203.77.3"}}), "address"),
        (lambda service: service.update(hostname="gateway"), "host name"),
        (lambda service: service["volumes"].append("secrets:/run/own"), "volume"),
        (lambda service: service["command"].extend(["--set", "node.id=1"]), "id"),
    ],
)
def test_an_obstacle_is_noticed(spoil: Callable[[Service], object], obstacle: str) -> None:
    service = copy.deepcopy(SERVICES["gateway"])
    spoil(service)
    assert any(obstacle in each for each in obstacles(service))


def test_the_front_finds_every_gateway_by_name_and_not_by_address() -> None:
    text = (ROOT / "deploy" / "front" / "haproxy.cfg").read_text()
    [(places, target)] = re.findall(r"server-template \S+ (\d+) (\S+)", text)
    assert target == "gateway:8000"
    assert int(places) >= 2 * SCALED["gateway"], "a gateway that is replaced needs a place beside the old one"
    assert "resolvers docker" in text


def test_everything_twice_fits_into_postgres_connections() -> None:
    words = SERVICES["postgres"]["command"]
    [most] = [int(str(word).partition("=")[2]) for word in words if str(word).startswith("max_connections=")]
    gateways = SCALED["gateway"] * int(SERVICES["gateway"]["environment"]["SECKILL_DATABASE_POOL"])
    workers = SCALED["celery"] * 16
    others = sum(SCALED.values()) - SCALED["gateway"] - SCALED["celery"]
    assert gateways + workers + CONNECTIONS_OF_A_CONSUMER * others < most * 0.8


def test_no_group_has_more_consumers_than_partitions() -> None:
    assert max(SCALED.values()) <= PARTITIONS


def test_all_containers_share_the_keys_that_sign_sessions_and_tickets() -> None:
    """One volume of secrets; a container with a key of its own would refuse what another one has signed."""
    for name in SCALED:
        assert "secrets:/run/seckill:ro" in SERVICES[name]["volumes"], name
        assert SERVICES[name]["environment"]["SECKILL_SECRET_KEY_FILE"] == "/run/seckill/secret_key"
    assert "secrets" in PROJECT["volumes"]
    assert parse_bytes(SERVICES["gateway"]["mem_limit"]) >= 256 << 20
