"""Shell: a second gateway beside the stack's own, for the same sales."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seckill.lab.faults.fault_stack import FaultStack
from seckill.stack import health_checks
from seckill.stack.child_processes import granian_command, running


@contextmanager
def second_gateway(stack: FaultStack, clock_ahead_s: int = 0) -> Iterator[str]:
    """The address of another gateway, whose clock may be wrong by this many seconds."""
    application = "seckill.lab.faults.skewed_gateway:application" if clock_ahead_s else "gateway.app:application"
    variables = {"FAULT_CLOCK_AHEAD_S": str(clock_ahead_s), "DJANGO_SETTINGS_MODULE": "seckill.config.settings"}
    url = f"http://127.0.0.1:{stack.second_port}"
    with running(
        "the second gateway", granian_command("rsgi", stack.second_port, application),
        stack.folder / "logs" / "gateway.second.log", health_checks.http(f"{url}/readyz"),
        environment=stack.started_with | stack.environment | stack.login("gateway") | variables,
        start_new_session=True,
    ):  # fmt: skip
        yield url
