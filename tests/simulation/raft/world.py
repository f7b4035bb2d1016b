"""The simulated world of a quorum: virtual time, a network, and everything that can go wrong with both.

One heap of (time, tie, call) decides the order. A message takes a random time, in order on each connection. A cut
loses messages silently; a connection to a dead process breaks, and a request that gets no answer fails after a while.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import sha256
from random import Random

from mqcore.identity import BrokerId
from mqcore.links.outcome import LinkFault
from mqcore.raft.messages import Request, Response
from mqcore.raft.ready import QuorumRules, Resign
from mqcore.raft.state import Leader
from tests.simulation.raft.invariants import Invariants
from tests.simulation.raft.node import RULES, Node

OnOutcome = Callable[[Response | LinkFault], None]

STRAGGLER_RATE = 0.02


class World:
    def __init__(
        self, seed: int, node_class: type[Node] = Node, *, founder: int = 1, rules: QuorumRules = RULES
    ) -> None:
        self.rules = rules
        self.now = 0
        self.seed = seed
        self.invariants = Invariants()
        self.net_random = Random(f"{seed} network")
        self.client_random = Random(f"{seed} client")
        self.trace = sha256()
        self.events = 0
        self.straggler_rate = STRAGGLER_RATE
        self.cuts: set[tuple[BrokerId, BrokerId]] = set()  # from, to
        self._heap: list[tuple[int, int, Node | None, int, Callable[[], None]]] = []
        self._ties = 0
        self._requests = 0
        self._last_arrival: dict[tuple[BrokerId, BrokerId], int] = {}
        self.has_lost_disk = False
        self.is_writing = True
        self.nodes = {
            number: node_class(self, number, Random(f"{seed} node {number}"), founder=number == founder)
            for number in (1, 2, 3)
        }

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def call_later(self, delay_ms: int, node: Node | None, call: Callable[[], None]) -> None:
        """A call for a node is dropped if the node has died since, and waits while the node is paused."""
        self._ties += 1
        life = 0 if node is None else node.life
        heapq.heappush(self._heap, (self.now + delay_ms, self._ties, node, life, call))

    def run_until(self, end: int) -> None:
        while self._heap and self._heap[0][0] <= end:
            time, _, node, life, call = heapq.heappop(self._heap)
            self.now = max(self.now, time)
            if node is not None and node.life != life:
                continue
            if node is not None and node.is_paused:
                self.call_later(20, node, call)
                continue
            call()
        self.now = end

    def run_for(self, ms: int) -> None:
        self.run_until(self.now + ms)

    def run_while(self, is_going_on: Callable[[], bool], ms_max: int = 10_000) -> None:
        end = self.now + ms_max
        while is_going_on():
            assert self.now < end, f"still waiting after {ms_max} ms"
            self.run_for(1)

    def note(self, node: Node) -> None:
        assert node.voter is not None and node.log is not None
        self.events += 1
        state = node.voter.state
        self.trace.update(
            f"{self.now} {node.id} {type(state.role).__name__} {state.election.epoch} "
            f"{state.high_watermark} {node.log.end}\n".encode()
        )

    # ── network ──────────────────────────────────────────────────────────────────────────────────

    def send(self, sender: Node, to: BrokerId, request: Request, on_outcome: OnOutcome) -> None:
        self._requests += 1
        number = self._requests
        sender.open_requests[number] = (to, on_outcome)
        life = sender.life
        self.call_later(self.rules.fetch_timeout_ms * 3 // 4, sender, lambda: self._time_out(sender, number))
        self._deliver(sender.id, to, lambda: self._arrive(sender, life, number, self.nodes[to], request))

    def _deliver(self, source: BrokerId, to: BrokerId, call: Callable[[], None]) -> None:
        if (source, to) in self.cuts:
            return
        delay = self.net_random.choice((1, 1, 2, 3))
        if self.net_random.random() < self.straggler_rate:
            delay += self.net_random.randrange(400)
        at = max(self._last_arrival.get((source, to), 0), self.now + delay)
        self._last_arrival[source, to] = at
        self.call_later(at - self.now, None, call)

    def _arrive(self, sender: Node, life: int, number: int, target: Node, request: Request) -> None:
        if (sender.id, target.id) in self.cuts:
            return
        if not target.is_up:
            self.call_later(1, sender, lambda: self._fail(sender, number))
            return
        if target.is_paused:
            self.call_later(20, None, lambda: self._arrive(sender, life, number, target, request))
            return
        target.receive(request, lambda response: self._reply(target, sender, life, number, response))

    def _reply(self, source: Node, sender: Node, life: int, number: int, response: Response) -> None:
        def arrive() -> None:
            if (source.id, sender.id) in self.cuts or sender.life != life or number not in sender.open_requests:
                return
            if sender.is_paused:
                self.call_later(20, sender, arrive)
                return
            self._finish(sender, number, response)

        self._deliver(source.id, sender.id, arrive)

    def _time_out(self, sender: Node, number: int) -> None:
        """The connection is given up. Bytes on it may still arrive, after those of the next connection."""
        if number in sender.open_requests:
            self._last_arrival.pop((sender.id, sender.open_requests[number][0]), None)
            self._fail(sender, number)

    def _fail(self, sender: Node, number: int) -> None:
        self._finish(sender, number, LinkFault("no answer"))

    def _finish(self, sender: Node, number: int, outcome: Response | LinkFault) -> None:
        _, on_outcome = sender.open_requests.pop(number, (None, None))
        if on_outcome is not None:
            with sender.running():
                on_outcome(outcome)

    def reset_connections(self, dead: Node) -> None:
        for node in self.nodes.values():
            if node.is_up:
                for number, (to, _) in list(node.open_requests.items()):
                    if to == dead.id:
                        self.call_later(2, node, lambda node=node, number=number: self._fail(node, number))  # type: ignore[misc]

    # ── troubles ─────────────────────────────────────────────────────────────────────────────────

    def start_all(self) -> None:
        for node in self.nodes.values():
            if not node.is_up:
                node.start()

    def kill(self, node: Node) -> None:
        if node.is_up:
            node.crash()
            node.disk.crash("kill")

    def cut_power(self, node: Node) -> None:
        node.crash()
        node.disk.crash("power")

    def lose_process(self, node: Node) -> None:
        """The disk has raised `Crashed` as arranged; the node comes back later."""
        self.cut_power(node)
        self.start_later(node)

    def start_later(self, node: Node, delay_ms: int = 300) -> None:
        """Start the process, and try again while its disk is full."""

        def start() -> None:
            try:
                node.start()
            except OSError:
                node.crash()
                node.disk.crash("kill")
                self.start_later(node)

        self.call_later(delay_ms, node, start)

    def wipe(self, node: Node) -> None:
        """The folder is lost. The node comes back with a new directory id."""
        self.kill(node)
        self.invariants.lost_disks[node.key] = 0 if node.log is None else node.log.durable
        node.new_folder()
        self.has_lost_disk = True
        node.start()

    def cut(self, source: BrokerId, to: BrokerId) -> None:
        self.cuts.add((source, to))

    def isolate(self, node: Node) -> None:
        for other in self.nodes.values():
            if other is not node:
                self.cut(node.id, other.id)
                self.cut(other.id, node.id)

    def heal(self) -> None:
        self.cuts.clear()
        self.straggler_rate = 0.0
        for node in self.nodes.values():
            node.is_paused, node.disk_slowness, node.disk.capacity = False, 1.0, None
            if not node.is_up:
                node.start()

    def resign(self, node: Node) -> None:
        node.handle(Resign())

    def adopt(self, node: Node) -> None:
        """The operator's command to whichever node leads."""
        for leader in self.leaders():
            leader.adopt(node.key)

    # ── observations ─────────────────────────────────────────────────────────────────────────────

    def leaders(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.voter and isinstance(node.voter.state.role, Leader)]

    def leader(self) -> Node:
        """The leader with the newest epoch."""
        return max(self.leaders(), key=lambda node: node.voter.epoch if node.voter else 0)

    def has_active_leader(self) -> bool:
        return any(node.voter is not None and node.voter.is_active() for node in self.leaders())

    def is_settled(self) -> bool:
        """One active leader, three voters, and three logs that are equal and committed to their ends."""
        if not all(node.is_up for node in self.nodes.values()) or not self.has_active_leader():
            return False
        ends = {
            (node.log.end, node.log.durable, node.voter.high_watermark)
            for node in self.nodes.values()
            if node.log and node.voter
        }
        keys = {node.key for node in self.nodes.values()}
        are_voters = all(set(node.log.voters.values()) == keys for node in self.nodes.values() if node.log)
        return len(ends) == 1 and len(set(*ends)) == 1 and are_voters
