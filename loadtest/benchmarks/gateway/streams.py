"""Shell: thousands of open event streams on one gateway: the memory of each, and how much they slow purchases down."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtest.benchmarks.gateway.event_streams import StreamSpec
from loadtest.benchmarks.gateway.mixed import MixedRun, send_load
from loadtest.benchmarks.gateway.servers import GATEWAY, Announce, GatewayServers, LoadFailed, View, gateway
from seckill.stack.child_processes import wait_until

CONNECTIONS_PER_STREAM = 1.5
"""Event streams may use three quarters of a gateway's connections (gateway/routes.py)."""
OTHER_CONNECTIONS = 1_000
"""For the purchases beside them."""
RATE = 1_000
SETTLE_SECONDS_MAX = 60.0


@dataclass(slots=True)
class StreamsResult:
    streams: int
    before_mb: float = 0.0
    after_mb: float = 0.0
    events_s: float = 0.0  # sent to all streams while they were open
    without: list[MixedRun] = field(default_factory=list)
    beside: list[MixedRun] = field(default_factory=list)

    @property
    def kb_per_stream(self) -> float:
        return (self.after_mb - self.before_mb) * 1000 / self.streams


def measure(folder: Path, streams: int, repeat: int, seconds: float, announce: Announce) -> StreamsResult:
    """The memory is that of the first repetition, because a process gives little back."""
    view = gateway(max(int(streams * CONNECTIONS_PER_STREAM), streams + OTHER_CONNECTIONS))
    found = StreamsResult(streams)
    with GatewayServers(folder, [view], announce) as servers:
        announce(f"warm up the {view.name}")
        send_load(servers, view, "warm-", seconds, RATE, 0)
        for repetition in range(repeat):
            text = f"{RATE:,} purchases per second, {repetition + 1} of {repeat}"
            announce(text)
            found.without.append(send_load(servers, view, f"without{repetition}-", seconds, RATE, 0))
            with _open_streams(servers, view, repetition, found, announce):
                announce(f"{text}, beside {streams:,} streams")
                found.beside.append(send_load(servers, view, f"beside{repetition}-", seconds, RATE, 0))
    return found


@contextmanager
def _open_streams(
    servers: GatewayServers, view: View, repetition: int, found: StreamsResult, announce: Announce
) -> Iterator[None]:
    announce(f"{found.streams:,} purchases, then a stream for each")
    spec = StreamSpec(**servers.target(view.name), users=f"streams{repetition}-", streams=found.streams)
    with servers.generator("event_streams", asdict(spec)) as holder:
        _require(holder.result()["accepted"], found.streams, "purchases accepted")
        before_mb = servers.resident_mb(view.name)
        holder.allow()
        _require(holder.result()["open"], found.streams, "streams open")
        yield
        if repetition == 0:
            found.before_mb, found.after_mb = before_mb, servers.resident_mb(view.name)
        holder.allow()
        found.events_s = holder.result()["events_s"]
    announce("wait until the gateway has closed all streams")
    wait_until(lambda: _stream_count(servers.ports[GATEWAY]) == 0, "the streams to be closed", SETTLE_SECONDS_MAX)


def _require(count: int, wanted: int, what: str) -> None:
    if count != wanted:
        raise LoadFailed(f"{what}: {count}, wanted {wanted}; each connection needs an open file (ulimit -n)")


def _stream_count(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        page = response.read().decode()
    return int(float(next(line for line in page.splitlines() if line.startswith("seckill_streams ")).split()[1]))
