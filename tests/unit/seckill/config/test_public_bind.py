"""Where our servers may listen."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from loadtest.sandbox.http_server import start_server as serve_sandbox
from seckill.config.public_bind import PublicBind, check_bind, check_granian
from seckill.monitoring.metrics import registry_of
from seckill.monitoring.metrics import serve as serve_metrics
from seckill.report.live.watch import MetricsPage

PUBLIC = ("0.0.0.0", "", "::", "192.0.2.1", "*", "no-such-host.invalid", "::ffff:192.0.2.1")
ALLOWED = {"SECKILL_ALLOW_PUBLIC_BIND": "1"}


@pytest.mark.parametrize("host", PUBLIC)
def test_an_address_beyond_loopback_is_refused_unless_it_is_allowed(host: str) -> None:
    with pytest.raises(PublicBind, match="SECKILL_ALLOW_PUBLIC_BIND=1"):
        check_bind(host, "a server", {})
    with pytest.raises(PublicBind):
        check_bind(host, "a server", {"SECKILL_ALLOW_PUBLIC_BIND": "0"})
    assert check_bind(host, "a server", ALLOWED) == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "::ffff:127.0.0.1"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert check_bind(host, "a server", {}) == host


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["granian", "--host", "0.0.0.0"], {}),
        (["granian", "--host=0.0.0.0"], {}),
        (["granian", "--host", "127.0.0.1", "--host", "0.0.0.0"], {}),
        (["granian"], {"GRANIAN_HOST": "0.0.0.0"}),
    ],
)
def test_the_rule_reads_granians_host_option(arguments: list[str], variables: dict[str, str]) -> None:
    with pytest.raises(PublicBind, match="the gateway"):
        check_granian("the gateway", arguments, variables)
    check_granian("the gateway", arguments, variables | ALLOWED)
    check_granian("the gateway", ["granian", "--host", "127.0.0.1"], variables)
    check_granian("the gateway", ["granian"], {})


@pytest.mark.parametrize(
    "start",
    [
        lambda port: serve_metrics("0.0.0.0", port, registry_of()),
        lambda port: MetricsPage().serve("0.0.0.0", port),
        lambda port: serve_sandbox(port, lambda *_: (200, {}), "0.0.0.0"),
    ],
)
def test_a_server_that_may_not_listen_never_opens_its_port(
    start: Callable[[int], object], unused_tcp_port: int
) -> None:
    with pytest.raises(PublicBind):
        start(unused_tcp_port)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", unused_tcp_port)) != 0


@pytest.fixture
def unused_tcp_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def test_every_module_that_opens_a_listener_checks_the_address() -> None:
    """Except Granian, whose application checks it, and mqcore, which has a setting of its own."""
    root = Path(__file__).parents[4]
    for package in ("seckill", "gateway", "inventory", "orders", "notifications", "analytics", "loadtest"):
        for path in (root / package).rglob("*.py"):
            for line in path.read_text().splitlines():
                if "Server((" in line and "create_server" not in line:
                    assert "check_bind(" in line, f"{path.relative_to(root)}: {line.strip()}"
