"""Shell: requests to the active controller on another node.

Each purpose has a connection of its own, because responses come in order: a heartbeat must not wait behind a topic that
is being created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from mqcore.config_addresses import ControllerAddress
from mqcore.controller.active import MetadataQuorum
from mqcore.host import Clock, Network
from mqcore.identity import BrokerId
from mqcore.links.link import Link
from mqcore.links.outcome import LinkFault

OnResponse = Callable[[memoryview | LinkFault], None]


class Purpose(Enum):
    MEMBERSHIP = "membership"
    IN_SYNC_REPLICAS = "in-sync replicas"
    FORWARDING = "forwarding"


NO_CONTROLLER: Final = LinkFault("no other node is known to be the active controller")


class RemoteController:
    """`addresses`: the controllers of the cluster by their node ids."""

    def __init__(
        self,
        me: BrokerId,
        quorum: MetadataQuorum,
        addresses: Mapping[int, ControllerAddress],
        clock: Clock,
        network: Network,
    ) -> None:
        self._me = me
        self._quorum = quorum
        self._addresses = addresses
        self._clock = clock
        self._network = network
        self._links: dict[tuple[BrokerId, Purpose], Link] = {}
        self._leader: BrokerId | None = None
        self.on_membership_lost: Callable[[], None] = _nothing
        """Called when the connection that carries the heartbeats breaks."""

    def start(self) -> None:
        self._quorum.watchers.add(self, self._follow_quorum)

    def _follow_quorum(self) -> None:
        """A leader that has been replaced will commit nothing, so requests to it fail at once, even if it hangs."""
        leader = self._quorum.leader
        if leader is not None and leader != self._leader:
            self._leader = leader
            for (node, _), link in self._links.items():
                if node != leader:
                    link.close()

    def send(
        self, purpose: Purpose, api: tuple[int, int], body: bytes, timeout_ms: int, on_response: OnResponse
    ) -> None:
        """Send to the leader of the quorum. `on_response` is called exactly once, and may be called at once."""
        leader = self._quorum.leader
        if leader is None or leader == self._me:
            on_response(NO_CONTROLLER)
            return
        link = self._links.get((leader, purpose))
        if link is None:
            link = self._links[leader, purpose] = self._link(leader, purpose)
        link.send(*api, body, timeout_ms, on_response)

    def _link(self, node: BrokerId, purpose: Purpose) -> Link:
        on_lost = self._membership_lost if purpose is Purpose.MEMBERSHIP else _nothing
        return Link(self._clock, self._network, lambda: self._addresses.get(node), f"broker-{self._me}", on_lost)

    def _membership_lost(self) -> None:
        self.on_membership_lost()

    def close(self) -> None:
        for link in self._links.values():
            link.close()


def _nothing() -> None:
    pass
