"""Shell: the network between three brokers, which can be cut in any direction, slowed and reset, without root.

The brokers reach one another only through a relay, a process of its own (seckill/stack/broker_relay.py). Clients
connect to the brokers directly. It works for mqcore and for Apache Kafka, because both take the same settings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self

from seckill.stack.broker_relay import HOST, Pair, Route

NODES = (1, 2, 3)
STOP_SECONDS_MAX = 5.0


class NetworkFault(Exception):
    """The relay has ended or could not start; the text says why."""


class NetworkPorts(NamedTuple):
    """`COUNT` consecutive ports, three for each purpose."""

    first: int

    def listener(self, number: int) -> int:
        """Where a broker listens for other brokers."""
        return self.first + number - NODES[0]

    def relayed_listener(self, number: int) -> int:
        """Where other brokers reach that listener."""
        return self.first + len(NODES) + number - NODES[0]

    def relayed_controller(self, number: int) -> int:
        """Where other brokers reach its controller."""
        return self.first + 2 * len(NODES) + number - NODES[0]

    def settings(self, number: int, port: int, controller_port: int) -> dict[str, str]:
        """The settings of a broker that reaches the others, and is reached by them, through the relay."""
        bound = {"PLAINTEXT": port, "REPLICATION": self.listener(number), "CONTROLLER": controller_port}
        reached = {
            "PLAINTEXT": port,
            "REPLICATION": self.relayed_listener(number),
            "CONTROLLER": self.relayed_controller(number),
        }
        return {
            "listeners": _addresses(bound),
            "advertised.listeners": _addresses(reached),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
            "inter.broker.listener.name": "REPLICATION",
            "controller.quorum.voters": ",".join(f"{node}@{HOST}:{self.relayed_controller(node)}" for node in NODES),
        }

    def routes(self, controller_ports: Mapping[int, int]) -> list[Route]:
        listeners = [Route(node, self.relayed_listener(node), self.listener(node)) for node in NODES]
        return listeners + [Route(node, self.relayed_controller(node), controller_ports[node]) for node in NODES]


PORTS_COUNT = 3 * len(NODES)


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())


# ── which directions ─────────────────────────────────────────────────────────────────────────────


def from_broker(number: int) -> frozenset[Pair]:
    """Everything that a broker sends to the others."""
    return frozenset(Pair(number, other) for other in NODES if other != number)


def to_broker(number: int) -> frozenset[Pair]:
    """Everything that the others send to a broker."""
    return frozenset(pair.reverse for pair in from_broker(number))


def around(number: int) -> frozenset[Pair]:
    """Everything between a broker and the others."""
    return from_broker(number) | to_broker(number)


EVERYTHING = frozenset(Pair(source, target) for source in NODES for target in NODES if source != target)


# ── the network ──────────────────────────────────────────────────────────────────────────────────


class BrokerNetwork:
    """Without a fault until a method asks for one."""

    def __init__(self, ports: NetworkPorts, controller_ports: Mapping[int, int]) -> None:
        self.ports = ports
        self._routes = ports.routes(controller_ports)
        self._process: subprocess.Popen[str] | None = None
        self._cuts: frozenset[Pair] = frozenset()
        self._delays: dict[Pair, float] = {}

    def start(self) -> Self:
        """Start the relay, unless it runs already."""
        if self._process is None:
            command = [sys.executable, "-m", "seckill.stack.broker_relay"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,  # Ctrl-C stops the brokers first
            )  # fmt: skip
            self._ask({"routes": self._routes})
        return self

    def close(self) -> None:
        process, self._process = self._process, None
        self._cuts, self._delays = frozenset(), {}
        if process is None:
            return
        try:
            process.communicate(timeout=STOP_SECONDS_MAX)  # closes its input, which ends it
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def cut(self, directions: Iterable[Pair]) -> Iterator[None]:
        """Hold back everything in these directions."""
        before, self._cuts = self._cuts, self._cuts | frozenset(directions)
        self._apply()
        try:
            yield
        finally:
            self._cuts = before
            self._apply()

    @contextmanager
    def slowed(self, directions: Iterable[Pair], seconds: float) -> Iterator[None]:
        """Let each piece of at most 64 KiB wait for some time."""
        before, self._delays = self._delays, {**self._delays, **dict.fromkeys(directions, seconds)}
        self._apply()
        try:
            yield
        finally:
            self._delays = before
            self._apply()

    def reset(self, directions: Iterable[Pair]) -> int:
        """Break the connections between these brokers. Returns how many ends were reset."""
        before = self.count_reset()
        return self._apply(directions)["reset"] - before

    def count_held(self) -> int:
        """How often something that a broker sent has had to wait."""
        return self._apply()["held"]

    def count_reset(self) -> int:
        return self._apply()["reset"]

    def _apply(self, reset: Iterable[Pair] = ()) -> dict[str, int]:
        delays = [(*pair, seconds) for pair, seconds in self._delays.items()]
        return self._ask({"cuts": sorted(self._cuts), "delays": delays, "reset": sorted(reset)})

    def _ask(self, command: Mapping[str, object]) -> dict[str, int]:
        if self._process is None:
            return {"held": 0, "reset": 0}
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer: dict[str, int] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as fault:
            self._process.kill()
            _, output = self._process.communicate()
            self._process = None
            raise NetworkFault(f"the relay between the brokers has ended: {output.strip()[-2000:]}") from fault
        return answer
