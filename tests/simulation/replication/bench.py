"""The same three brokers and controller without chance: a scenario says which message arrives when.

    bench.produce(1, 0, 1)       broker 1 is asked to append the records 0 and 1
    bench.replicate(2)           broker 2 fetches until it has everything, and its leader knows that it has
    bench.alter(1)               the open proposals of broker 1 reach the controller, and the answer comes back
    bench.tell(2, 3)             brokers 2 and 3 learn the newest metadata
    bench.kill(1)                the controller is not told; `bench.fence(1)` is what it does later

Messages that no line of the scenario delivers stay on their way: `bench.held` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, Millis
from mqcore.partitions.leader import LeaderState
from mqcore.replication.altering import AlterAsk
from mqcore.wire.records import Record, build_batch
from tests.simulation.replication.broker import FetchRecords
from tests.simulation.replication.controller import Heartbeat, Register
from tests.simulation.replication.events import Node
from tests.simulation.replication.network import Network, Receive, Then
from tests.simulation.replication.records import WALL_MS, RecordId
from tests.simulation.replication.replica import Produced, Replica
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.world import BROKERS, World

NOTHING: Any = object()


@dataclass(eq=False)
class Held:
    """A request that is on its way until `deliver`, and whose answer is on its way until `finish`."""

    client: Node
    server: Node
    request: Any
    then: Then
    receive: Receive
    answer: Any = NOTHING
    is_delivered: bool = False
    is_finished: bool = False

    def deliver(self) -> None:
        self.is_delivered = True
        self.receive(self.request, self._on_answer)

    def _on_answer(self, answer: Any) -> None:
        self.answer = answer

    def finish(self, answer: Any = NOTHING) -> None:
        """Hand the answer to the client; None says that it never came."""
        self.is_finished = True
        self.then(self.answer if answer is NOTHING else answer)


class HeldMessages(Network):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.held: list[Held] = []

    def call(
        self, client: Node, server: Node, purpose: str, request: Any, then: Then, timeout_ms: int, label: str
    ) -> None:
        self.held.append(Held(client, server, request, then, self._receivers[server.name]))


class Bench(World):
    """One partition on brokers 1, 2 and 3. Broker 1 leads in epoch 1, and all are in sync."""

    def __init__(self, setup: Setup | None = None, seed: int = 1) -> None:
        setup = setup or Setup()
        durable_only, min_isr = bool(setup.durable_only), 2 if setup.min_isr is None else setup.min_isr
        super().__init__(seed, replace(setup, durable_only=durable_only, min_isr=min_isr, partitions=1), HeldMessages)
        (self.partition,) = self.partitions
        for number in (1, 2, 3):
            self.start_and_register(number)
        self.tell(1, 2, 3)

    # ── what a scenario looks at ─────────────────────────────────────────────────────────────────

    @property
    def held(self) -> list[Held]:
        assert isinstance(self.network, HeldMessages)
        return self.network.held

    def replica(self, number: int) -> Replica:
        return self.brokers[BrokerId(number)].replicas[self.partition]

    def leader(self, number: int) -> LeaderState:
        role = self.replica(number).role
        assert isinstance(role, LeaderState), role
        return role

    def records(self, number: int) -> list[RecordId]:
        """(leader epoch, number) of each record of a broker, read from its files."""
        return self.replica(number).read_content()

    @property
    def isr(self) -> set[int]:
        return set(self.controller.terms[self.partition].isr)

    def check(self) -> None:
        self.truth.check()

    # ── brokers and controller ───────────────────────────────────────────────────────────────────

    def start_and_register(self, number: int) -> None:
        broker = self.brokers[BrokerId(number)]
        broker.start()
        registered = self.controller.register(Register(broker.id, broker.node.life), self.events.now)
        assert registered is not None
        broker.on_controller_answer(registered)
        self.unfence(number)

    def fence(self, *numbers: int) -> None:
        """The controller has not heard from these brokers for too long."""
        for number in numbers:
            self.controller._fence(BrokerId(number))
        self.truth.controller_changed()
        self.check()

    def unfence(self, number: int) -> None:
        broker = self.brokers[BrokerId(number)]
        assert self.controller.heartbeat(Heartbeat(broker.id, broker.broker_epoch), self.events.now)
        self.truth.controller_changed()
        self.check()

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            assert self.brokers[BrokerId(number)].apply(self.controller.image)
        self.check()

    def kill(self, number: int) -> None:
        self.crash(self.brokers[BrokerId(number)])

    def power_loss(self, number: int) -> None:
        self.crash(self.brokers[BrokerId(number)], "power")

    def wipe(self, number: int) -> None:
        """The broker has lost its disk. It may be started with a new one."""
        self.kill(number)
        self.brokers[BrokerId(number)].disk = MemoryDisk()

    def wait(self, ms: int) -> None:
        """Time passes, and leaders do what is due."""
        self.events.now = Millis(self.events.now + ms)
        for number in BROKERS:
            self.replica(number).tick()
        self.check()

    def recreate(self) -> None:
        """Delete the topic and create another one under its name. The brokers are not told yet."""
        self.recreate_topic(self.partition)
        (self.partition,) = self.partitions

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def on_its_way(self, number: int, kind: type) -> Held | None:
        """The newest request of this kind from a broker that is not finished."""
        client = self.brokers[BrokerId(number)].node
        found = [h for h in self.held if h.client is client and isinstance(h.request, kind) and not h.is_finished]
        return found[-1] if found else None

    def fetch(self, number: int) -> bool:
        """One fetch reaches the leader, and its answer comes back. False if the leader has nothing to send."""
        self.brokers[BrokerId(number)].fetch_all()
        held = self.on_its_way(number, FetchRecords)
        if held is None:
            return False
        if not held.is_delivered:
            held.deliver()
            self.check()
        if held.answer is NOTHING:
            return False
        held.finish()
        self.check()
        return True

    def replicate(self, *numbers: int) -> None:
        for number in numbers:
            for _ in range(20):
                if not self.fetch(number):
                    break
                self.events.now = Millis(self.events.now + 100)  # a follower pauses after an error

    def fetch_reaches(self, number: int) -> Held:
        """The next fetch of a follower is served; the answer stays on its way."""
        self.brokers[BrokerId(number)].fetch_all()
        held = self.on_its_way(number, FetchRecords)
        assert held is not None
        if not held.is_delivered:
            held.deliver()
        self.check()
        return held

    def proposal(self, number: int) -> Held | None:
        self.brokers[BrokerId(number)].send_proposals()
        return self.on_its_way(number, AlterAsk)

    def alter(self, number: int) -> Held:
        held = self.proposal(number)
        assert held is not None, "nothing is proposed"
        self.controller_reads(held)
        held.finish()
        self.check()
        return held

    def controller_reads(self, held: Held) -> None:
        held.deliver()
        self.check()

    def produce(
        self, number: int, *records: int, acks: int = -1, producer: int = -1, sequence: int = -1
    ) -> list[Produced]:
        """The list gets the answer when there is one."""
        batch = build_batch(
            [Record(delta, WALL_MS + record, None, b"v") for delta, record in enumerate(records)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
        )
        answers: list[Produced] = []
        self.replica(number).produce(memoryview(batch), acks, self._remember(answers, records, acks))
        self.check()
        return answers

    def _remember(self, answers: list[Produced], records: tuple[int, ...], acks: int) -> Callable[[Produced], None]:
        def reply(answer: Produced) -> None:
            answers.append(answer)
            if not answer.error:
                self.truth.acknowledged(self.partition, records[0], len(records), answer.base_offset, acks)

        return reply
