"""A gateway process with production settings: unsafe settings stop it, and the demo does not exist."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from redis import Redis

from seckill.stack import health_checks
from seckill.stack.child_processes import free_port, running
from tests.services import Services

PATIENCE_S = 30
PRODUCTION = {
    "SECKILL_DEVELOPMENT": "false",
    "SECKILL_SECRET_KEY": "k" * 32,
    "SECKILL_PROVIDER_SECRET": "p" * 32,
    "SECKILL_PUBLIC_URL": "https://shop.example",
    "SECKILL_TRUSTED_PROXIES": "127.0.0.1",
}


def command(host: str, port: int) -> list[str]:
    return [
        sys.executable, "-m", "granian", "--interface", "rsgi", "--http", "1", "--no-ws", "--host", host, "--port",
        str(port), "--log-level", "warning", "gateway.app:application",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "different", "complaint"),
    [
        ("0.0.0.0", {}, "SECKILL_ALLOW_PUBLIC_BIND=1"),
        ("127.0.0.1", {"SECKILL_PROVIDER_SECRET": "short"}, "SECKILL_PROVIDER_SECRET has 5 bytes"),
        ("127.0.0.1", {"SECKILL_PUBLIC_URL": "http://shop.example"}, "SECKILL_PUBLIC_URL must begin with https://"),
    ],
)
def test_the_gateway_refuses_to_start_with_unsafe_settings(
    host: str, different: dict[str, str], complaint: str, services: Services
) -> None:
    ended = subprocess.run(
        command(host, free_port()), env=services.environment(**(PRODUCTION | different)), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=PATIENCE_S, text=True,
    )  # fmt: skip
    assert ended.returncode != 0
    assert complaint in ended.stdout and "Traceback" not in ended.stdout


def test_demo_sign_in_and_console_do_not_exist_in_production(services: Services, redis: Redis, tmp_path: Path) -> None:
    port = free_port()
    environment = services.environment(**PRODUCTION)
    log = tmp_path / "gateway.log"
    with running("gateway", command("127.0.0.1", port), log, health_checks.ports_open(port), environment=environment):

        def asked(path: str, body: bytes | None = None) -> int:
            headers = {"X-Forwarded-Proto": "https", "Content-Type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert asked("/api/docs") == 200
        assert asked("/api/v1/sessions", b'{"user": "ann"}') == asked("/shop/sign-in") == 404
        assert {asked(path) for path in ("/console", "/console/login", "/console/live")} == {404}
