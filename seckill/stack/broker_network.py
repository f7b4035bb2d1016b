"""Shell: the network between three brokers, which can be cut in any direction, slowed and reset, without root.

The brokers reach one another only through a relay, a process of its own (seckill/stack/broker_relay.py). Clients
connect to the brokers directly. It works for mqcore and for Apache Kafka, because both take the same settings.

The relay must know which broker calls. It reads that from the first request, but TLS hides the requests. Brokers with
names therefore resolve them differently: each has a hosts file that leads to an address of the relay for this broker.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self

from seckill.stack.broker_relay import HOST, Pair, Route

NODES = (1, 2, 3)
STOP_SECONDS_MAX = 5.0


class NetworkFault(Exception):
    """The relay has ended or could not start; the text says why."""


class NetworkPorts(NamedTuple):
    """`PORTS_COUNT` consecutive ports, three for each purpose. `host` is the address on which the brokers listen, and
    `has_names` says that they call one another by names."""

    first: int
    protocol: str = "PLAINTEXT"
    host: str = HOST
    has_names: bool = False

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
        bound = {
            self.protocol: f"{self.host}:{port}",
            "REPLICATION": f"{self.host}:{self.listener(number)}",
            "CONTROLLER": f"{self.host}:{controller_port}",
        }
        reached = {
            self.protocol: f"{self.host}:{port}",
            "REPLICATION": f"{self._name(number)}:{self.relayed_listener(number)}",
            "CONTROLLER": f"{self._name(number)}:{self.relayed_controller(number)}",
        }
        voters = [f"{node}@{self._name(node)}:{self.relayed_controller(node)}" for node in NODES]
        return {
            "listeners": _listeners(bound),
            "advertised.listeners": _listeners(reached),
            "listener.security.protocol.map": ",".join(f"{name}:{self.protocol}" for name in bound),
            "inter.broker.listener.name": "REPLICATION",
            "controller.quorum.voters": ",".join(voters),
        }

    def routes(self, controller_ports: Mapping[int, int]) -> list[Route]:
        targets = [(node, self.relayed_listener(node), self.listener(node)) for node in NODES]
        targets += [(node, self.relayed_controller(node), controller_ports[node]) for node in NODES]
        if not self.has_names:
            return [Route(*target) for target in targets]
        return [Route(*target, _relay_address(source), source) for source in NODES for target in targets]

    def hosts_file(self, number: int) -> str:
        """How this broker resolves names: the others are where the relay expects this broker."""
        own = f"{HOST} localhost {socket.gethostname()}\n"
        return own + f"{_relay_address(number)} {' '.join(BROKER_NAMES.values())}\n"

    def _name(self, number: int) -> str:
        return BROKER_NAMES[number] if self.has_names else HOST


PORTS_COUNT = 3 * len(NODES)
BROKER_NAMES = {number: f"broker-{number}" for number in NODES}


def _relay_address(source: int) -> str:
    """Linux has all of 127.0.0.0/8 on the loopback interface."""
    return f"127.0.1.{source}"


def _listeners(addresses: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


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


class NetworkFaults(ABC):
    """A network without a fault until a method asks for one."""

    def __init__(self) -> None:
        self._cuts: frozenset[Pair] = frozenset()
        self._delays: dict[Pair, float] = {}

    @abstractmethod
    def send(self, command: Mapping[str, object]) -> dict[str, int]:
        """The relay's answer to a command."""

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
        return self.send({"cuts": sorted(self._cuts), "delays": delays, "reset": sorted(reset)})


class BrokerNetwork(NetworkFaults):
    """It owns the relay."""

    def __init__(self, ports: NetworkPorts, controller_ports: Mapping[int, int]) -> None:
        super().__init__()
        self.ports = ports
        self._routes = ports.routes(controller_ports)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start the relay, unless it runs already."""
        if self._process is None:
            command = [sys.executable, "-m", "seckill.stack.broker_relay"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True,  # Ctrl-C stops the brokers first
            )  # fmt: skip
            self.send({"routes": self._routes})
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

    def send(self, command: Mapping[str, object]) -> dict[str, int]:
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
