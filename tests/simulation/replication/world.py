"""A world of three brokers, a controller, producers and consumers. A seed decides everything that happens in it."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from mqcore.identity import BrokerId, TopicIdPartition, TopicPartition
from mqcore.partitions.leader import LeaderRules, LeaderState
from mqcore.replication.altering import AlterAsk
from tests.simulation.replication.broker import Broker
from tests.simulation.replication.clients import Consumer, Producer
from tests.simulation.replication.controller import Heartbeat, Register
from tests.simulation.replication.events import Events, Node
from tests.simulation.replication.network import Network
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.truth import Truth, Violated

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
SESSION_MS = 900
IMAGE_TIMEOUT_MS = 2000
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
        for index, (partition, name) in enumerate(self.partitions.items()):
            replicas = BROKERS[index % 3 :] + BROKERS[: index % 3]
            self.controller.create(partition, name, replicas, self.min_isr)
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
        self._clients = 0
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

    def add_clients(self, partition: TopicIdPartition) -> None:
        self.add_producer(partition, acks=-1)
        self.add_producer(partition, acks=-1)
        self.add_producer(partition, acks=1)
        self.add_consumer(partition)

    def add_producer(self, partition: TopicIdPartition, acks: int) -> Producer:
        producer = Producer(
            f"p{self._clients}", partition, self.events, self.network, [*self.brokers.values()], self._seed()
        )
        self.producers.append(producer)
        producer.begin(acks, self._clients, self._next_number)
        producer.on_ack = lambda number, count, offset: self.truth.acknowledged(partition, number, count, offset, acks)
        return producer

    def add_consumer(self, partition: TopicIdPartition) -> Consumer:
        consumer = Consumer(
            f"r{self._clients}", partition, self.events, self.network, [*self.brokers.values()], self._seed()
        )
        self.consumers.append(consumer)
        consumer.begin(
            lambda offset, record: self.truth.seen(partition, offset, record),
            lambda offset: self.truth.lost_place(partition, offset),
        )
        return consumer

    def _seed(self) -> int:
        self._clients += 1
        return self.seed * 1024 + self._clients

    def recreate_topic(self, old: TopicIdPartition) -> None:
        """Delete the topic and create another one under its name. Requests about the old one are still on their way."""
        new = TopicIdPartition(UUID(int=old.topic_id.int + 1), old.partition)
        name = self.partitions[new] = self.partitions.pop(old)
        for producer in [one for one in self.producers if one.partition == old]:
            producer.retire()
            self.producers.remove(producer)
        self.consumers = [consumer for consumer in self.consumers if consumer.partition != old]
        term = self.controller.delete(old)
        self.truth.recreated(old, new)
        self.controller.create(new, name, term.replicas, term.min_isr)
        self.add_clients(new)
        self._after_controller()

    def _next_number(self, count: int) -> int:
        self._numbers += count
        return self._numbers - count

    # ── brokers ──────────────────────────────────────────────────────────────────────────────────

    def crash(self, broker: Broker, kind: str = "kill") -> None:
        if broker.node.is_running:
            broker.crash(kind)
            self.truth.controller_changed()

    def start_broker(self, broker: Broker) -> None:
        if not broker.node.is_running:
            broker.start()

    def move_leaders(self, broker_id: BrokerId) -> None:
        for partition in self.partitions:
            self.controller.move_leader(partition, broker_id)
        self._after_controller()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def heal(self) -> None:
        """Repair everything, stop writing, and require that nothing is missing some time later."""
        self.is_healing = True
        self.network.repair()
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
            if any(partition not in broker.replicas for broker in self.brokers.values()):
                return f"a broker has not opened {partition}"
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

    @property
    def elections(self) -> int:
        return sum(term.leader_epoch for term in self.controller.terms.values())
