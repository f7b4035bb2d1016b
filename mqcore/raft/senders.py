"""Shell: sends requests of the quorum to the other voters, over one link each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mqcore.host import Clock, Network
from mqcore.identity import BrokerId
from mqcore.links.link import Link
from mqcore.links.outcome import LinkFault
from mqcore.raft import codec
from mqcore.raft.messages import FetchRequest, FetchSnapshotRequest, Request, Response
from mqcore.raft.ready import QuorumRules
from mqcore.wire.frames import BadFrame
from mqcore.wire.messages import decode_response, encode_request

log = logging.getLogger(__name__)


class Senders:
    def __init__(
        self,
        clock: Clock,
        network: Network,
        addresses: Mapping[BrokerId, tuple[str, int]],
        node_id: int,
        cluster_id: str,
        rules: QuorumRules,
    ) -> None:
        def link_to(address: tuple[str, int]) -> Link:
            return Link(clock, network, lambda: address, f"quorum-{node_id}")

        self._links = {node: link_to(address) for node, address in addresses.items() if node != node_id}
        self._cluster_id = cluster_id
        self._rules = rules
        self._faults: dict[BrokerId, str] = {}

    def send(self, node: BrokerId, request: Request, on_outcome: Callable[[Response | LinkFault], None]) -> None:
        """`on_outcome` is called exactly once, and later."""
        api = codec.api_of(request)
        body = encode_request(*api, codec.encode_request(request, self._cluster_id, self._rules.fetch_wait_ms))

        def on_response(body: memoryview | LinkFault) -> None:
            outcome = body if isinstance(body, LinkFault) else _decode(request, body)
            self._note(node, outcome)
            on_outcome(outcome)

        self._links[node].send(*api, body, self._timeout_ms(request), on_response)

    def _timeout_ms(self, request: Request) -> int:
        """A later answer would be of no use: the follower, or the candidate, has gone on."""
        is_fetch = isinstance(request, (FetchRequest, FetchSnapshotRequest))
        return self._rules.fetch_timeout_ms if is_fetch else self._rules.election_timeout_ms

    def _note(self, node: BrokerId, outcome: Response | LinkFault) -> None:
        """Log once when a voter is lost, and once when it is back."""
        if isinstance(outcome, LinkFault):
            if node not in self._faults:
                log.warning("voter not reached", extra={"voter": node, "reason": outcome.reason})
            self._faults[node] = outcome.reason
        elif self._faults.pop(node, None) is not None:
            log.info("voter reached again", extra={"voter": node})

    def lost_nodes(self) -> frozenset[BrokerId]:
        """The voters whose last request failed."""
        return frozenset(self._faults)

    def close(self) -> None:
        for link in self._links.values():
            link.close()


def _decode(request: Request, body: memoryview) -> Response | LinkFault:
    """What cannot be understood is as good as no response."""
    try:
        return codec.decode_response(request, decode_response(*codec.api_of(request), body))
    except BadFrame as bad:
        return LinkFault(str(bad))
