"""Simulated connections: requests and answers in order, with delays, cuts in one or both directions, and late bytes.

A connection breaks when an answer does not come in time or when its other end dies. What was sent before may still
arrive afterwards: the bytes of a broken connection, or of a dead process, can be in a socket that is read late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.replication.events import Events, Node

Receive = Callable[[Any, Callable[[Any], None]], None]
Then = Callable[[Any], None]  # the answer, or None if the connection broke

LATE_MS_MAX = 1500
STRAGGLE_RATE = 0.02


@dataclass(eq=False)
class Call:
    client: Node
    life: int
    then: Then
    is_open: bool = True

    def finish(self, value: Any) -> None:
        """Only the first answer counts, and only for the life of the client that has asked."""
        self.client.run(self.life, lambda: self._finish(value))

    def _finish(self, value: Any) -> None:
        if self.is_open:
            self.is_open = False
            self.then(value)


@dataclass
class Channel:
    """One connection. `lost` means that bytes in this direction are gone, and therefore all later ones."""

    server_life: int
    calls: list[Call] = field(default_factory=list)
    request_at: float = 0
    answer_at: float = 0
    request_lost: bool = False
    answer_lost: bool = False
    is_broken: bool = False


class Network:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._channels: dict[tuple[str, str, str], Channel] = {}
        self._receivers: dict[str, Receive] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.straggle_rate = STRAGGLE_RATE
        self.clogged: set[tuple[str, str]] = set()  # (server, purpose) whose requests take long

    def repair(self) -> None:
        self.cuts.clear()
        self.clogged.clear()
        self.straggle_rate = STRAGGLE_RATE

    def serve(self, node: Node, receive: Receive) -> None:
        self._receivers[node.name] = receive

    def call(
        self, client: Node, server: Node, purpose: str, request: Any, then: Then, timeout_ms: int, label: str
    ) -> None:
        """Send a request. `then` runs once: with the answer, or with None if the connection breaks before it."""
        channel = self._open(client, server, purpose)
        call = Call(client, client.life, then)
        if channel is None:
            self._events.at(self._delay(), f"refused {label}", lambda: call.finish(None))
            return
        channel.calls.append(call)
        self._events.at(timeout_ms, f"deadline {label}", lambda: self._expire(channel, call), client)
        delay = self._one_way(client, server, channel.request_lost)
        if delay is None:
            channel.request_lost = True
            return
        if (server.name, purpose) in self.clogged:
            delay += self._events.chance.random() * LATE_MS_MAX
        channel.request_at = max(channel.request_at, self._events.now + delay)
        server_life, name = channel.server_life, server.name

        def deliver() -> None:
            if server.is_running and server.life == server_life:
                server.run(server_life, lambda: self._receivers[name](request, answer))

        def answer(value: Any) -> None:
            self._answer(channel, call, server, value, label)

        self._events.at(channel.request_at - self._events.now, f"deliver {label}", deliver)

    def _answer(self, channel: Channel, call: Call, server: Node, value: Any, label: str) -> None:
        delay = self._one_way(server, call.client, channel.answer_lost)
        if delay is None or channel.is_broken:
            channel.answer_lost = True
            return
        channel.answer_at = max(channel.answer_at, self._events.now + delay)

        def deliver() -> None:
            if not channel.is_broken and call in channel.calls:
                channel.calls.remove(call)
                call.finish(value)

        self._events.at(channel.answer_at - self._events.now, f"answer {label}", deliver)

    def _open(self, client: Node, server: Node, purpose: str) -> Channel | None:
        key = (client.name, server.name, purpose)
        channel = self._channels.get(key)
        if channel is None or channel.is_broken:
            if not server.is_running or key[:2] in self.cuts:
                return None
            channel = self._channels[key] = Channel(server.life)
        return channel

    def _delay(self) -> float:
        chance = self._events.chance
        late = chance.random() * 400 if chance.random() < self.straggle_rate else 0
        return 1 + chance.random() * 4 + late

    def _one_way(self, sender: Node, receiver: Node, is_lost: bool) -> float | None:
        """How long the bytes take; None if they never arrive."""
        if is_lost:
            return None
        if (sender.name, receiver.name) not in self.cuts:
            return self._delay()
        if self._events.chance.random() < 0.5:
            return None
        return self._events.chance.random() * LATE_MS_MAX

    def _expire(self, channel: Channel, call: Call) -> None:
        if call.is_open:
            self._break(channel)

    def _break(self, channel: Channel) -> None:
        channel.is_broken = True
        calls, channel.calls = channel.calls, []
        for call in calls:
            call.finish(None)

    def died(self, node: Node) -> None:
        """Break the connections of a process that has ended. Its clients notice shortly afterwards."""
        for (client, server, purpose), channel in list(self._channels.items()):
            if channel.is_broken:
                continue
            if client == node.name:
                channel.is_broken = True
            elif server == node.name and (server, client) not in self.cuts:
                self._events.at(self._delay(), f"reset {client} {server} {purpose}", _breaker(self, channel))


def _breaker(network: Network, channel: Channel) -> Callable[[], None]:
    return lambda: network._break(channel)
