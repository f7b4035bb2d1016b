"""Three controller nodes, brokers, and messages between them that are late, lost or doubled; one seed, one history.

The log of the quorum is a list: what a controller appends is committed. So the histories are about decisions: late
requests, earlier lives, controllers that are elected again, snapshots.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from random import Random

from mqcore.controller.cluster_commands import (
    Activate,
    AlteredPartitions,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
)
from mqcore.controller.commands import (
    ControllerAnswer,
    ControllerCommand,
)
from mqcore.controller.facts import MetadataFact, NoOp, SessionFact
from mqcore.controller.lifecycle import Unreachable
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.records import decode, encode
from mqcore.controller.sessions import ControllerRules
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Tick, Ticket
from mqcore.host import Instant
from mqcore.identity import BrokerId, Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal
from tests.simulation.controller.properties import Properties
from tests.simulation.controller.sim_broker import SimBroker
from tests.simulation.controller.troubles import NODES, Troubles

Reply = Registered | HeartbeatAnswer | AlteredPartitions | Refusal | Unreachable

STEP_MS = 50
RULES = ControllerRules(balance_interval_ms=5_000)


class ControllerWorld:
    """`properties` says what must hold, and keeps what was violated."""

    def __init__(self, seed: int, brokers: int = 4) -> None:
        self.now = 0
        self.epoch = 0
        self.log: list[MetadataFact] = []
        self._random = Random(seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.paused: dict[int, list[Callable[[], None]]] = {}
        self.active = 1
        self.properties = Properties(self)
        self.troubles = Troubles(self, Random(f"{seed}/troubles"))
        self.machine = ControllerMachine(TopicDefaults(2, 3), RULES)
        self.brokers = {
            BrokerId(number): SimBroker(self, number, Random(f"{seed}/{number}")) for number in range(1, brokers + 1)
        }
        self.elect(1)
        for broker in self.brokers.values():
            broker.start()

    # Time and messages

    def run(self, troubled_ms: int = 25_000, healing_ms: int = 20_000) -> None:
        """Troubles, of which a quarter of the time is free, then none, and the cluster has to recover."""
        while self.now < 1_000:
            self._step()
        for name, factor in (("a", 3), ("b", 2), ("unclean", 3)):
            self.troubles.create_topic(name, factor)
        while self.now < troubled_ms and not self.properties.violations:
            self._step()
            if self.now > 2_000 and (self.now // 2_500) % 4:
                self.troubles.make()
        self.troubles.heal()
        while self.now < troubled_ms + healing_ms and not self.properties.violations:
            self._step()
        if not self.properties.violations:
            self.properties.check_recovered()

    @property
    def violations(self) -> list[str]:
        return self.properties.violations

    def trace(self) -> str:
        """A digest of everything that was decided."""
        return hashlib.sha256(repr((self.log, self.now, self.properties.violations)).encode()).hexdigest()

    def _step(self) -> None:
        self.now += STEP_MS
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        deadline = self.machine.deadline()
        if self.active not in self.paused and deadline is not None and deadline <= self.now:
            self.decide(Tick())
        for broker in self.brokers.values():
            if broker.is_running:
                broker.step()

    def later(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._count, event))

    def send(self, broker: SimBroker, command: ControllerCommand, reply: Callable[[Reply], None]) -> None:
        """To the active controller, as far as the broker knows. Sometimes an old copy arrives much later."""
        if broker.is_cut_off:
            return
        node = self.active if self._random.random() < 0.9 else self._random.choice(NODES)
        delay = 5_000 if self._random.random() < 0.02 else self._random.randrange(0, 150)
        self.later(delay, lambda: self._deliver(node, broker, command, reply))
        if self._random.random() < 0.03:
            self.later(self._random.randrange(1_000, 9_000), lambda: self._deliver(node, broker, command, ignore))

    def _deliver(
        self, node: int, broker: SimBroker, command: ControllerCommand, reply: Callable[[Reply], None]
    ) -> None:
        if node in self.paused:
            self.paused[node].append(lambda: self._deliver(node, broker, command, reply))
            return
        answer: ControllerAnswer | None = Refusal(ErrorCode.NOT_CONTROLLER)
        if node == self.active:
            answer = self.decide(command)
        if self._random.random() < 0.95 and not broker.is_cut_off:
            assert isinstance(answer, Reply)
            heard = answer
            self.later(self._random.randrange(0, 100), lambda: reply(heard))

    def are_connected(self, one: SimBroker, other: SimBroker) -> bool:
        return one.is_running and other.is_running and not self.troubles.is_cut(one, other)

    def new_number(self) -> int:
        self._count += 1
        return self._count

    # The controller

    def elect(self, node: int) -> None:
        """A controller takes over, from the log or from a snapshot."""
        image = self.properties.check_takeover()
        self.active, self.epoch = node, self.epoch + 1
        start = self._random.choice([list(image.facts()), list(self.log)])
        self.log.append(NoOp())  # where the quorum has its change of leaders
        self.machine = ControllerMachine(TopicDefaults(2, 3), RULES)
        for fact in [*start, NoOp()]:
            self.machine.apply(fact)
        self.decide(Activate(self.epoch, Offset(len(self.log)), {"metadata.version": 20}, "2"))

    def decide(self, command: ControllerCommand | Tick) -> ControllerAnswer | None:
        now = Instant(Millis(self.now), Millis(self.now))
        decision = self.machine.decide(Ticket(1), command, now)
        for fact in decision.facts:
            if not isinstance(fact, SessionFact):
                self.log.append(decode(encode(fact)[1]))
            self.machine.apply(fact)
        self.properties.check(command)
        answers = [answer for _, answer in decision.answers]
        if isinstance(command, RegisterBroker) and isinstance(answers[0], Registered):
            self.properties.check_registration(command, answers[0])
        return answers[0] if answers else None

    def go_on(self, node: int) -> None:
        waiting = self.paused.pop(node, [])
        if self._random.random() < 0.5:
            self.elect(node)
        for event in waiting:
            event()


def run_history(seed: int) -> ControllerWorld:
    """One history to its end, or to its first violation."""
    world = ControllerWorld(seed)
    try:
        world.run()
    except AssertionError as wrong:
        world.properties.violations.append(f"an assertion failed: {wrong}")
    return world


def ignore(answer: Reply) -> None:
    """The answer to a copy that nobody waits for."""
