"""docker-compose.yml without Docker: the way in, and whom the gateways believe about the address of a client."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from tests.architecture.compose_file import ROOT, SERVICES, compose


def test_the_gateways_trust_only_the_front_about_client_addresses() -> None:
    for variables in ({}, {"INSIDE_NET": "10.1.2"}):
        project = compose(**variables)
        front = project["services"]["front"]["networks"]["inside"]["ipv4_address"]
        [pool] = project["networks"]["inside"]["ipam"]["config"]
        assert ip_address(front) in ip_network(pool["subnet"])
        assert ip_address(front) not in ip_network(pool["ip_range"]), "Docker assigns it to no other container"
        assert project["services"]["gateway"]["environment"]["SECKILL_TRUSTED_PROXIES"] == front


def test_a_client_cannot_fake_its_address_on_the_published_port() -> None:
    text = (ROOT / "deploy/front/haproxy.cfg").read_text()
    assert 'set-header X-Forwarded-For "%[src]" unless is_named' in text
    assert re.findall(r"acl is_named (.*)", text) == ["dst_port 8081", "env(TRUST_CLIENT_ADDRESSES) -m str 1"]
    [published] = SERVICES["front"]["ports"]
    assert published.endswith(":8080")
    assert str(SERVICES["front"]["environment"]["TRUST_CLIENT_ADDRESSES"]) == "0"


def test_front_routes_to_existing_services() -> None:
    text = (ROOT / "deploy/front/haproxy.cfg").read_text()
    led = dict(re.findall(r"server-template \S+ \d+ ([\w-]+):(\d+)", text))
    ports = {name: SERVICES[name]["command"][SERVICES[name]["command"].index("--port") + 1] for name in led}
    assert led == ports and set(led) == {"gateway"}
