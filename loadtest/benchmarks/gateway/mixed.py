"""Shell: purchases and status polls together at fixed rates, because this is the load that buyers really make."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from loadtest.benchmarks.gateway.open_loop import POLLS, PURCHASES, OpenLoopSpec
from loadtest.benchmarks.gateway.servers import Announce, GatewayServers, View, gateway

PURCHASE_CONNECTIONS, POLL_CONNECTIONS = 640, 256
WARM_UP_SECONDS_MAX = 2.0
WARM_UP_RATE = 1_000


class MixedLoad(NamedTuple):
    """Per second. The goals are the p99 of the prototype that chose this design, plus a tenth; in ms."""

    purchases: int
    polls: int
    purchase_p99_max: float
    poll_p99_max: float

    @property
    def name(self) -> str:
        return f"{self.purchases:,} + {self.polls:,}"


LOADS = (MixedLoad(3_000, 1_500, 78, 408), MixedLoad(5_000, 400, 127, 94))


@dataclass(slots=True)
class KindResult:
    """Of the purchases, or of the polls. Latencies count from the moment when a request was due."""

    reached_s: float
    share_good: float
    latencies_ms: dict[str, float]
    statuses: dict[str, int] = field(default_factory=dict)  # of all answers, those of the first second included


@dataclass(slots=True)
class MixedRun:
    view: str
    load: str
    purchases: KindResult
    polls: KindResult
    generator_cores: float
    generator_lag_ms: float  # p99 of how late the generator itself was


def measure(folder: Path, other: View | None, repeat: int, seconds: float, announce: Announce) -> list[MixedRun]:
    views = [gateway(), *([other] if other else [])]
    runs = []
    with GatewayServers(folder, views, announce) as servers:
        for view in views:
            announce(f"warm up the {view.name}")
            send_load(servers, view, "warm-", min(seconds, WARM_UP_SECONDS_MAX), WARM_UP_RATE, WARM_UP_RATE)
        for repetition in range(repeat):
            for load in LOADS:
                for view in views if repetition % 2 else reversed(views):
                    announce(f"{load.name} per second: {view.name}, {repetition + 1} of {repeat}")
                    users = f"r{repetition}-{load.purchases}-"
                    runs.append(send_load(servers, view, users, seconds, load.purchases, load.polls))
    return runs


def send_load(
    servers: GatewayServers, view: View, users: str, seconds: float, purchases_s: int, polls_s: int
) -> MixedRun:
    users = f"{view.name.replace(' ', '-')}-{users}"
    spec = OpenLoopSpec(
        **servers.target(view.name), users=users, seconds=seconds, purchases_s=purchases_s, polls_s=polls_s,
        purchase_connections=PURCHASE_CONNECTIONS, poll_connections=POLL_CONNECTIONS,
    )  # fmt: skip
    result = servers.generate("open_loop", spec)
    kinds = {
        name: KindResult(each["reached_s"], each["share_good"], each["latencies_ms"], each["statuses"])
        for name, each in result["streams"].items()
    }
    load = f"{purchases_s:,} + {polls_s:,}"
    return MixedRun(view.name, load, kinds[PURCHASES], kinds[POLLS], result["cores"], result["lag_p99_ms"])
