"""A world of three brokers, a controller, producers and consumers. A seed decides everything that happens in it."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from mqcore.identity import BrokerId, TopicIdPartition, TopicPartition
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.replication.altering import AlterAsk
from tests.conformance.history import History, Place, Sent, anomalies
from tests.simulation.replication.broker import Broker
from tests.simulation.replication.clients import Consumer, Producer
from tests.simulation.replication.controller import Heartbeat, Register
from tests.simulation.replication.events import Events, Node
from tests.simulation.replication.network import Network
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.troubles import PERIOD_MS, PERIODS, Trouble, troubles_of
from tests.simulation.replication.truth import Truth, Violated

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
SESSION_MS = 900
IMAGE_TIMEOUT_MS = 2000
TROUBLED_MS = PERIODS * PERIOD_MS
HEALING_MS = 30_000


class World:
    def __init__(self, seed: int, setup: Setup | None = None, make_network: type[Network] = Network) -> None:
        self.seed = seed
        self.setup = setup = setup or Setup()
        random = Random(seed)
        self.durable_only = random.random() < 0.5 if setup.durable_only is None else setup.durable_only
        count = random.choice((1, 1, 2)) if setup.partitions is None else setup.partitions
        self.min_isr = random.choice((1, 2, 2)) if setup.min_isr is None else setup.min_isr
        self.events = Events(seed * 8 + 1)
        self.network = make_network(self.events)
        self.controller = setup.controller(SESSION_MS)
        self.controller_node = Node("c")
        self.partitions = {
            TopicIdPartition(UUID(int=7), index): TopicPartition("orders", index) for index in range(count)
        }
        for index, partition in enumerate(self.partitions):
            replicas = BROKERS[index % 3 :] + BROKERS[: index % 3]
            self.controller.create(partition, replicas, self.min_isr)
        self.brokers: dict[BrokerId, Broker] = {}
        self.truth = Truth(self.controller, self.brokers)
        rules = LeaderRules(lag_ms_max=1000, retry_ms=100, durable_only=self.durable_only)
        for broker_id in BROKERS:
            self.brokers[broker_id] = Broker(
                broker_id,
                self.events,
                self.network,
                self.controller_node,
                self.brokers,
                self.partitions,
                rules,
                setup,
                self.truth,
                seed * 8 + 2 + broker_id,
            )
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.is_healing = False
        self._numbers = 0
        self._pushed = dict.fromkeys(BROKERS, -1)
        self._pushing: set[BrokerId] = set()
        self.network.serve(self.controller_node, self._controller_receives)
        self.events.after_each = self.truth.check

    def start(self) -> None:
        self.controller_node.is_running = True
        self.events.at(0, "controller", self._controller_tick, self.controller_node)
        for broker in self.brokers.values():
            broker.start()

    # ── the controller's shell ───────────────────────────────────────────────────────────────────

    def _controller_receives(self, request: Any, reply: Any) -> None:
        now = self.events.now
        match request:
            case Register():
                answer = self.controller.register(request, now)
                if answer is not None:
                    reply(answer)
            case Heartbeat():
                reply(self.controller.heartbeat(request, now))
            case AlterAsk():
                reply(self.controller.alter(request))
            case _:
                raise AssertionError(f"unknown request {request}")
        self._after_controller()

    def _controller_tick(self) -> None:
        self.controller.tick(self.events.now)
        self._after_controller()
        self.events.at(100, "controller", self._controller_tick, self.controller_node)

    def _after_controller(self) -> None:
        self.truth.controller_changed()
        for broker_id, broker in self.brokers.items():
            if broker_id not in self._pushing and self._pushed[broker_id] < self.controller.image.version:
                self._push(broker_id, broker)

    def _push(self, broker_id: BrokerId, broker: Broker) -> None:
        image = self.controller.image
        self._pushing.add(broker_id)

        def on_answer(answer: object) -> None:
            self._pushing.discard(broker_id)
            if answer is not None:
                self._pushed[broker_id] = image.version

        label = f"image {image.version} > {broker.node.name}"
        self.network.call(self.controller_node, broker.node, "image", image, on_answer, IMAGE_TIMEOUT_MS, label)

    # ── clients ──────────────────────────────────────────────────────────────────────────────────

    def add_producer(self, partition: TopicIdPartition, acks: int) -> Producer:
        name = f"p{len(self.producers)}"
        producer = Producer(
            name,
            partition,
            self.events,
            self.network,
            list(self.brokers.values()),
            self.seed * 64 + len(self.producers),
        )
        self.producers.append(producer)
        producer.begin(acks, len(self.producers), self._next_number)
        producer.on_ack = lambda number, count, offset: self.truth.acknowledged(partition, number, count, offset, acks)
        return producer

    def add_consumer(self, partition: TopicIdPartition) -> Consumer:
        name = f"r{len(self.consumers)}"
        seed = self.seed * 64 + 32 + len(self.consumers)
        consumer = Consumer(name, partition, self.events, self.network, list(self.brokers.values()), seed)
        self.consumers.append(consumer)
        consumer.begin(
            lambda offset, record: self.truth.seen(partition, offset, record),
            lambda offset: self.truth.lost_place(partition, offset),
        )
        return consumer

    def _next_number(self, count: int) -> int:
        self._numbers += count
        return self._numbers - count

    # ── troubles ─────────────────────────────────────────────────────────────────────────────────

    def plan(self, troubles: list[Trouble]) -> None:
        for trouble in troubles:
            self.events.at(trouble.at_ms - self.events.now, f"{trouble}", lambda one=trouble: self._cause(one))  # type: ignore[misc]

    def _cause(self, trouble: Trouble) -> None:
        first, second = (self.brokers[BrokerId(number)] for number in trouble.brokers)
        everyone = list(self.brokers.values())
        others = [broker for broker in everyone if broker is not first]
        match trouble.kind:
            case "kill" | "power":
                self._crash_for(trouble, [first])
            case "kill two":
                self._crash_for(trouble, [first, second])
            case "kill all" | "power all":
                self._crash_for(trouble, everyone)
            case "pause":
                self._pause_for(trouble, first.node)
            case "pause controller":
                self._pause_for(trouble, self.controller_node)
            case "cut":
                self._cut_for(trouble, [(first.node, second.node), (second.node, first.node)])
            case "one-way cut":
                self._cut_for(trouble, [(first.node, second.node)])
            case "isolate":
                self._cut_for(trouble, [pair for b in others for pair in ((first.node, b.node), (b.node, first.node))])
            case "cut from controller":
                node = self.controller_node
                self._cut_for(trouble, [(first.node, node), (node, first.node)])
            case "controller's answers lost":
                self._cut_for(trouble, [(self.controller_node, first.node)])
            case "late images":
                self._clog_for(trouble, (first.node.name, "image"))
            case "late proposals":
                self._clog_for(trouble, (self.controller_node.name, "alter"))
            case "move leader":
                for partition in self.partitions:
                    self.controller.move_leader(partition, first.id)
                self._after_controller()
            case "flap":
                self._flap(first)
            case "stragglers":
                self.network.straggle_rate = 0.3
                self.events.at(trouble.duration_ms, "stragglers end", self._end_straggling)
            case _:
                raise AssertionError(trouble.kind)

    def _end_straggling(self) -> None:
        self.network.straggle_rate = 0.02

    def crash(self, broker: Broker, kind: str = "kill") -> None:
        if broker.node.is_running:
            broker.crash(kind)
            self.truth.controller_changed()

    def start_broker(self, broker: Broker) -> None:
        if not broker.node.is_running:
            broker.start()

    def _crash_for(self, trouble: Trouble, brokers: list[Broker]) -> None:
        if self.is_healing:
            return
        for broker in brokers:
            self.crash(broker, "power" if trouble.kind.startswith("power") else "kill")
            self.events.at(trouble.duration_ms, f"start {broker.node.name}", lambda one=broker: self.start_broker(one))  # type: ignore[misc]

    def _flap(self, broker: Broker) -> None:
        """Restart it several times while proposals are late: it is gone again before the controller reads of it."""
        self.network.clogged.add((self.controller_node.name, "alter"))
        again = Trouble(self.events.now, "kill", (broker.id, broker.id), 100)
        for number in range(4):
            self.events.at(number * 600, "flap", lambda: self._crash_for(again, [broker]))
        self.events.at(3000, "flap ends", self.network.clogged.clear)

    def _pause_for(self, trouble: Trouble, node: Node) -> None:
        node.is_paused = True
        self.events.at(trouble.duration_ms, f"resume {node.name}", node.resume)

    def _cut_for(self, trouble: Trouble, pairs: list[tuple[Node, Node]]) -> None:
        names = [(one.name, other.name) for one, other in pairs]
        self.network.cuts.update(names)
        self.events.at(trouble.duration_ms, "cut ends", lambda: self.network.cuts.difference_update(names))

    def _clog_for(self, trouble: Trouble, channel: tuple[str, str]) -> None:
        self.network.clogged.add(channel)
        self.events.at(trouble.duration_ms, "clog ends", lambda: self.network.clogged.discard(channel))

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def heal(self) -> None:
        """Repair everything, stop writing, and require that the world becomes quiet and whole."""
        self.is_healing = True
        self.network.cuts.clear()
        self.network.clogged.clear()
        self._end_straggling()
        for node in (self.controller_node, *(broker.node for broker in self.brokers.values())):
            node.resume()
        for broker in self.brokers.values():
            self.start_broker(broker)
        for producer in self.producers:
            producer.writes = False
        deadline = self.events.now + HEALING_MS
        while (missing := self.what_is_missing()) is not None:
            if self.events.now >= deadline:
                raise Violated("liveness", missing)
            self.events.run_until(self.events.now + 100)

    def what_is_missing(self) -> str | None:
        """Why the world is not whole yet, or None."""
        for producer in self.producers:
            if producer.pending:
                return f"{producer.name} has {len(producer.pending)} batches without an answer"
        for partition, term in self.controller.terms.items():
            if term.isr != set(term.replicas):
                return f"the ISR of {partition.partition} is {sorted(term.isr)}"
            replicas = [broker.replicas[partition] for broker in self.brokers.values()]
            for replica in replicas:
                if replica.leader_epoch != term.leader_epoch or replica.content != replicas[0].content:
                    return f"a replica of {partition.partition} is in epoch {replica.leader_epoch}, {term}"
                if replica.high_watermark != replica.log.end_offset:
                    return f"{replica.high_watermark} of {replica.log.end_offset} records are committed"
                if isinstance(replica.role, LeaderState) and not replica.role.isr.is_certain:
                    return "a proposal is open"
            end = replicas[0].log.end_offset
            for consumer in self.consumers:
                if consumer.partition == partition and consumer.position < end:
                    return f"{consumer.name} has read {consumer.position} of {end}"
        return None

    def judge(self) -> dict[str, list[str]]:
        """What clients have observed, judged by the same checker as real processes; plus the files of the replicas."""
        history = History()
        log: dict[Place, Sent] = {}
        found: dict[str, list[str]] = {}
        sent = {number: self._sent(producer, number) for producer in self.producers for number in producer.unknown}
        for partition in self.partitions:
            contents = [broker.replicas[partition].read_content() for broker in self.brokers.values()]
            if any(content != contents[0] for content in contents):
                found["different files"] = [f"partition {partition.partition}"]
            for offset, record in enumerate(contents[0]):
                log[Place(partition.partition, offset)] = sent[record.number]
        for producer in self.producers:
            for number, offset in producer.acked.items():
                history.acked[sent[number]] = Place(producer.partition.partition, offset)
        for consumer in self.consumers:
            index = consumer.partition.partition
            history.seen[consumer.name] = [(Place(index, at), sent[record.number]) for at, record in consumer.seen]
        history.unknown = set(sent.values())
        history.log = log
        return found | anomalies(history)

    def _sent(self, producer: Producer, number: int) -> Sent:
        return Sent(producer.name, producer.partition.partition, number)

    @property
    def elections(self) -> int:
        return sum(term.leader_epoch for term in self.controller.terms.values())


def run_history(seed: int, setup: Setup | None = None) -> World:
    """One whole history. Raises `Violated` with the command that repeats it."""
    world = World(seed, setup)
    troubles = troubles_of(seed * 8 + 7, BROKERS, with_power=world.durable_only)
    world.plan(troubles)
    world.start()
    for partition in world.partitions:
        world.add_producer(partition, acks=-1)
        world.add_producer(partition, acks=-1)
        world.add_producer(partition, acks=1)
        world.add_consumer(partition)
    try:
        world.events.run_until(TROUBLED_MS)
        world.heal()
        found = world.judge()
        if found:
            raise Violated("history", f"{found}")
    except Violated as violated:
        again = f"python -m tests.simulation.replication {seed}"
        violated.add_note(f"at {world.events.now} ms, event {world.events.count}; repeat it: {again}")
        raise
    return world
