"""Shell: the most purchases per second that each view accepts, and the CPU that one costs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtest.benchmarks.gateway.closed_loop import ClosedLoopSpec
from loadtest.benchmarks.gateway.servers import BARE_VIEWS, Announce, GatewayServers, View, gateway

WARM_UP_SECONDS_MAX = 2.0
WAITING_MAX = 768
"""The gateway lets this many purchases wait at once (gateway/purchase.py)."""
REQUESTS_PER_SECOND_MAX = 16_000
"""Requests prepared for each second: more than any view can answer."""


@dataclass(slots=True)
class Run:
    """One load on one view."""

    view: str
    connections: int
    accepted_s: float
    share_accepted: float
    latencies_ms: dict[str, float]
    cpu_us: float  # of all processes of the server, per accepted request
    cores: dict[str, float] = field(default_factory=dict)  # used by each process


def measure(
    folder: Path, other: View | None, repeat: int, seconds: float, connections: Sequence[int], announce: Announce
) -> tuple[list[Run], dict[str, float]]:
    """The runs, and the CPU time of each step of an admission. In each repetition, the best number of connections
    counts for each view."""
    views = [gateway(), *([other] if other else []), *BARE_VIEWS]
    runs = []
    with GatewayServers(folder, views, announce) as servers:
        for view in views:
            announce(f"warm up the {view.name}")
            _send_load(servers, view, "warm-", min(seconds, WARM_UP_SECONDS_MAX), max(connections))
        for repetition in range(repeat):
            for view in views if repetition % 2 else reversed(views):
                announce(f"{view.name}, {repetition + 1} of {repeat}")
                tries = [_send_load(servers, view, f"r{repetition}-{count}-", seconds, count) for count in connections]
                runs.append(max(tries, key=lambda run: run.accepted_s))
        announce("each step on its own")
        return runs, _steps(servers)


def _send_load(servers: GatewayServers, view: View, users: str, seconds: float, connections: int) -> Run:
    users = f"{view.name.replace(' ', '-').replace(',', '')}-{users}"  # each gateway has its own buyers
    spec = ClosedLoopSpec(
        **servers.target(view.name), users=users, requests=int(seconds * REQUESTS_PER_SECOND_MAX),
        connections=connections, seconds=seconds,
    )  # fmt: skip
    with servers.generator("closed_loop", asdict(spec)) as load:
        load.result()  # the requests are prepared
        before = servers.cpu_s()
        load.allow()
        result = load.result()
    used_s = {name: cpu_s - before[name] for name, cpu_s in servers.cpu_s().items()}
    total, accepted = sum(result["statuses"].values()), result["statuses"].get("202", 0)
    cpu_us = used_s[view.name] / max(1, accepted + result["accepted_late"]) * 1e6
    # The server's own cores always have the same name, so that views can be compared.
    cores = {"server": used_s[view.name], "broker": used_s["broker"], "redis": used_s["redis"], "load": result["cpu_s"]}
    return Run(
        view.name, connections, accepted / result["seconds"], accepted / max(1, total), result["latencies_ms"],
        cpu_us, {name: cpu / result["seconds"] for name, cpu in cores.items()},
    )  # fmt: skip


def _steps(servers: GatewayServers) -> dict[str, float]:
    os.environ.update(servers.environment())
    import django

    django.setup()
    from loadtest.benchmarks.gateway import steps

    return steps.measure()
