"""Shell: a second gateway beside that of the stack: another door to the same sale."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from seckill.faults.world import World
from seckill.stack import ready
from seckill.stack.services import HTTP_1_ONLY


@contextmanager
def second_gateway(world: World, clock_ahead_s: int = 0) -> Iterator[str]:
    """Another one beside that of the stack, with its own idea of the time if it is told so; its address."""
    application = "seckill.faults.skewed:application" if clock_ahead_s else "seckill.rsgi:application"
    command = [
        sys.executable, "-m", "granian", "--interface", "rsgi", *HTTP_1_ONLY, "--host", "127.0.0.1", "--port",
        str(world.second_port), "--workers", "1", "--log-level", "warning", application,
    ]  # fmt: skip
    more = {"FAULT_CLOCK_AHEAD_S": str(clock_ahead_s), "DJANGO_SETTINGS_MODULE": "seckill.settings"}
    with (world.folder / "logs" / "gateway.second.log").open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env=world.started_with | world.environment | more,
        )  # fmt: skip
    url = f"http://127.0.0.1:{world.second_port}"
    is_ready = ready.http(f"{url}/readyz")
    try:
        world.wait_until(lambda: is_ready() is None, "the second gateway")
        yield url
    finally:
        process.terminate()
        process.wait(20)
