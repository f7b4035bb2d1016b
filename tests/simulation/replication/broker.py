"""A simulated broker process: it registers, applies images, fetches from leaders and sends proposals."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, Millis, TopicIdPartition, TopicPartition
from mqcore.links.outcome import LinkFault
from mqcore.log.checkpoints import CheckpointFile
from mqcore.partitions.follower import FollowerState
from mqcore.partitions.leader import LeaderRules
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.terms import Proposal
from mqcore.replication.altering import AlterAnswer, AlterAsk
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition
from tests.simulation.replication.controller import Heartbeat, Image, Register, Registered
from tests.simulation.replication.events import Events, Node
from tests.simulation.replication.network import Network
from tests.simulation.replication.replica import Produced, Replica
from tests.simulation.replication.setup import Setup

TICK_MS = 50
HEARTBEAT_MS = 200
FETCH_TIMEOUT_MS = 600
REQUEST_TIMEOUT_MS = 400
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID
HIGH_WATERMARKS = "replication-offset-checkpoint"


class FetchRecords(NamedTuple):
    """A follower's request to its leader."""

    partition: TopicIdPartition
    fetch: ReplicaFetch


class ProduceRecords(NamedTuple):
    partition: TopicIdPartition
    batch: bytes
    acks: int


class ConsumeRecords(NamedTuple):
    partition: TopicIdPartition
    offset: int
    leader_epoch: int


class Observer(Protocol):
    """The test, which checks every change."""

    def moved(self, broker: Broker, replica: Replica) -> None: ...

    def opened(self, broker: Broker, replica: Replica) -> None: ...

    def acknowledges(self, replica: Replica, number: int, offset: int) -> None: ...


class Broker:
    def __init__(
        self,
        broker_id: BrokerId,
        events: Events,
        network: Network,
        controller: Node,
        peers: dict[BrokerId, Broker],
        partitions: dict[TopicIdPartition, TopicPartition],
        rules: LeaderRules,
        setup: Setup,
        observer: Observer,
        seed: int,
    ) -> None:
        self.id = broker_id
        self.node = Node(f"b{broker_id}")
        self.disk = MemoryDisk(Random(seed))
        self.replicas: dict[TopicIdPartition, Replica] = {}
        self.broker_epoch = -1
        self.image = Image(-1, {}, {})
        self._events = events
        self._network = network
        self._controller = controller
        self._peers = peers
        self._names = dict(partitions)  # as its copy of the metadata log says; it survives crashes
        self._rules = rules
        self._setup = setup
        self._altering = setup.altering(broker_id)
        self._observer = observer
        self._image_needed = 0  # the version at which this life was registered: older images are about the last one
        self._beat_at = 0
        self._asks_controller = False
        network.serve(self.node, self._receive)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self.node.life += 1
        self.node.is_running, self.node.is_paused, self.node.backlog = True, False, []
        self.broker_epoch, self.image, self._altering = -1, Image(-1, {}, {}), self._setup.altering(self.id)
        self._asks_controller, self._beat_at = False, 0
        self.replicas = {}
        for partition, name in self._names.items():
            self._open(partition, name)
        self.later(0, "tick", self._tick)

    def _open(self, partition: TopicIdPartition, name: TopicPartition) -> None:
        known = CheckpointFile(self.disk, HIGH_WATERMARKS).read().get(name, 0)
        replica = self._setup.replica(self, name, self.disk, known, self._rules, self._setup.parts)
        self.replicas[partition] = replica
        self._observer.opened(self, replica)

    def _remove(self, partition: TopicIdPartition) -> None:
        """The topic was deleted. What the checkpoint says about its name must not apply to the next topic."""
        replica = self.replicas.pop(partition)
        replica.remove()
        self._altering.withdraw(partition)
        del self._names[partition]
        self._write_high_watermarks()
        self.disk.remove(str(replica.name))
        self.disk.sync_directory("")

    def _write_high_watermarks(self) -> None:
        offsets = {replica.name: int(replica.high_watermark) for replica in self.replicas.values()}
        CheckpointFile(self.disk, HIGH_WATERMARKS).write(offsets)

    def crash(self, kind: str) -> None:
        self.node.is_running = False
        self.node.is_paused, self.node.backlog = False, []
        self.disk.crash("power" if kind == "power" else "kill")
        self._network.died(self.node)

    # ── what replicas need ───────────────────────────────────────────────────────────────────────

    def now(self) -> Millis:
        return self._events.now

    def later(self, delay_ms: int, label: str, action: Callable[[], None]) -> None:
        self._events.at(delay_ms, f"{self.node.name} {label}", action, self.node)

    def is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool:
        return self.image.broker_epochs.get(broker) == broker_epoch

    def propose(self, replica: Replica, proposal: Proposal) -> None:
        partition = next(key for key, value in self.replicas.items() if value is replica)
        self._events.note(f"propose {sorted(proposal.isr)} at {proposal.partition_epoch}")
        self._altering.propose(partition, proposal)

    def sync_ms(self) -> int:
        return self._events.chance.choice((1, 2, 2, 5, 40))

    def acknowledges(self, replica: Replica, number: int, offset: int) -> None:
        self._observer.acknowledges(replica, number, offset)

    def moved(self, replica: Replica) -> None:
        self._observer.moved(self, replica)

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        now = self.now()
        if now >= self._beat_at and not self._asks_controller:
            self._ask_controller()
        for replica in self.replicas.values():
            replica.tick()
        self.fetch_all()
        self.send_proposals()
        if now % 1000 < TICK_MS:
            self._write_high_watermarks()
        self.later(TICK_MS, "tick", self._tick)

    def _ask_controller(self) -> None:
        self._asks_controller = True
        request: Register | Heartbeat
        if self.broker_epoch < 0:
            request = Register(self.id, self.node.life)
        else:
            request = Heartbeat(self.id, self.broker_epoch)
        self._call(self._controller, "control", request, self.on_controller_answer, REQUEST_TIMEOUT_MS)

    def on_controller_answer(self, answer: Registered | bool | None) -> None:
        self._asks_controller = False
        self._beat_at = self.now() + HEARTBEAT_MS
        if isinstance(answer, Registered):
            self.broker_epoch, self._image_needed = answer.broker_epoch, answer.broker_epoch
            self._beat_at = self.now()
        elif answer is False:
            self._stand_down_everywhere()

    def _stand_down_everywhere(self) -> None:
        """The controller does not know this registration any more: register again, as after a restart."""
        self.broker_epoch = -1
        self._beat_at = self.now()
        for replica in self.replicas.values():
            replica.stand_down()

    def _call(self, server: Node, purpose: str, request: Any, then: Callable[[Any], None], timeout_ms: int) -> None:
        label = f"{self.node.name}>{server.name} {type(request).__name__}"
        self._network.call(self.node, server, purpose, request, then, timeout_ms, label)

    # ── metadata ─────────────────────────────────────────────────────────────────────────────────

    def apply(self, image: Image) -> bool:
        """False if this broker is not registered yet, so that it needs the image again."""
        if self.broker_epoch < 0:
            return False
        if image.version <= max(self.image.version, self._image_needed):
            return True
        self.image = image
        for partition in [one for one in self.replicas if one not in image.terms]:
            self._remove(partition)
        for partition, term in image.terms.items():
            if partition not in self.replicas:
                self._names[partition] = image.names[partition]
                self._open(partition, image.names[partition])
            replica = self.replicas[partition]
            if term.leader_epoch == replica.leader_epoch and replica.role is not None:
                replica.learned(term)
            elif term.leader_epoch >= replica.leader_epoch:
                self._altering.withdraw(partition)
                if term.leader == self.id:
                    replica.lead(term)
                else:
                    replica.follow(term)
                self._observer.moved(self, replica)
        return True

    # ── fetching ─────────────────────────────────────────────────────────────────────────────────

    def fetch_all(self) -> None:
        for partition, replica in self.replicas.items():
            self._fetch(partition, replica)

    def _fetch(self, partition: TopicIdPartition, replica: Replica) -> None:
        role = replica.role
        if not isinstance(role, FollowerState):
            return
        fetch = role.ask(replica.log, self.now())
        if fetch is None:
            return
        leader = self._peers[role.leader].node
        purpose = f"fetch {partition.partition}"

        def on_answer(answer: FetchedPartition | None) -> None:
            current = replica.role
            if isinstance(current, FollowerState):
                if answer is None:
                    current.failed(fetch, self.now())
                else:
                    replica.carry_out(current.decide(fetch, answer, replica.log, self.now()))
                self._fetch(partition, replica)

        self._call(leader, purpose, FetchRecords(partition, fetch), on_answer, FETCH_TIMEOUT_MS)

    # ── proposals ────────────────────────────────────────────────────────────────────────────────

    def send_proposals(self) -> None:
        ask = self._altering.request(self.broker_epoch)
        if ask is not None:
            self._call(self._controller, "alter", ask, lambda answer: self._on_altered(ask, answer), REQUEST_TIMEOUT_MS)

    def _on_altered(self, ask: AlterAsk, answer: AlterAnswer | None) -> None:
        for partition, proposal, outcome in self._altering.answered(ask, answer or LinkFault("no answer")):
            self._events.note(f"settled {type(outcome).__name__}")
            if partition in self.replicas:
                self._settle(self.replicas[partition], proposal, outcome)
        self.send_proposals()

    def _settle(self, replica: Replica, proposal: Proposal, outcome: Any) -> None:
        replica.settled(lambda leader: leader.settled(proposal, outcome, self.now()))

    # ── requests of others ───────────────────────────────────────────────────────────────────────

    def _receive(self, request: Any, reply: Callable[[Any], None]) -> None:
        match request:
            case Image():
                reply(True if self.apply(request) else None)
            case FetchRecords() | ProduceRecords() | ConsumeRecords() if request.partition not in self.replicas:
                is_produce = isinstance(request, ProduceRecords)
                reply(Produced(UNKNOWN) if is_produce else FetchedPartition(0, UNKNOWN))
            case FetchRecords(partition, fetch):
                self.replicas[partition].serve(fetch, reply)
            case ProduceRecords(partition, batch, acks):
                self.replicas[partition].produce(memoryview(bytearray(batch)), acks, reply)
            case ConsumeRecords(partition, offset, leader_epoch):
                reply(self.replicas[partition].consume(offset, leader_epoch))
            case _:
                raise AssertionError(f"unknown request {request}")
        self.fetch_all()
        self.send_proposals()
