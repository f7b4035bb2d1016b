"""Three controller nodes, brokers, and messages between them that are late, lost or doubled; one seed, one history.

The log of the quorum is a list: what a controller appends is committed. So the histories are about decisions: late
requests, earlier lives, controllers that are elected again, snapshots. After every decision:

* the image is valid, and equals what its records and a snapshot of it make;
* partition epochs grow by one, and a leader epoch has one leader;
* a new leader was in sync, unless the topic allows an unclean election;
* in-sync replicas are a subset of what their leader counts on, and have every committed record.
"""

from __future__ import annotations

import hashlib
import heapq
import sys
from collections.abc import Callable
from random import Random
from uuid import UUID

from mqcore.controller.cluster_commands import (
    Activate,
    AlteredPartitions,
    AlterPartition,
    BrokerDisconnected,
    Election,
    ElectLeaders,
    HeartbeatAnswer,
    Reassign,
    Reassignment,
    RegisterBroker,
    Registered,
    UnregisterBroker,
)
from mqcore.controller.commands import (
    Alteration,
    AlterConfigs,
    ConfigEdit,
    ControllerAnswer,
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionIncrease,
    ResourceEdits,
)
from mqcore.controller.facts import BrokerRegistered, MetadataFact, NoOp, ResourceType, SessionFact
from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.lifecycle import Phase, Unreachable
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.records import decode, encode
from mqcore.controller.sessions import ControllerRules
from mqcore.controller.setting_layers import cluster_value
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Tick, Ticket
from mqcore.host import Instant
from mqcore.identity import BrokerId, Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal
from tests.simulation.controller.sim_broker import Key, Leader, SimBroker
from tests.unit.mqcore.controller.random_commands import cluster_state

Reply = Registered | HeartbeatAnswer | AlteredPartitions | Refusal | Unreachable

STEP_MS = 50
NODES = (1, 2, 3)
TOPICS = ("a", "b", "unclean")
RULES = ControllerRules(balance_interval_ms=5_000)


class ControllerWorld:
    def __init__(self, seed: int, brokers: int = 4) -> None:
        self.now = 0
        self.epoch = 0
        self.log: list[MetadataFact] = []
        self.violations: list[str] = []
        self._random = Random(seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._paused: dict[int, list[Callable[[], None]]] = {}
        self._active = 1
        self._history: dict[Key, PartitionImage] = {}
        self._committed: dict[Key, list[int]] = {}
        self._may_lose: set[UUID] = set()
        self._cuts: set[tuple[BrokerId, BrokerId]] = set()
        self.machine = ControllerMachine(TopicDefaults(2, 3), RULES)
        self.brokers = {
            BrokerId(number): SimBroker(self, number, Random(f"{seed}/{number}")) for number in range(1, brokers + 1)
        }
        self._elect(1)
        for broker in self.brokers.values():
            broker.start()

    # Time and messages

    def run(self, troubled_ms: int = 25_000, healing_ms: int = 20_000) -> None:
        """Troubles, of which a quarter of the time is free, then none, and the cluster has to recover."""
        while self.now < 1_000:
            self._step()
        for name, factor in (("a", 3), ("b", 2), ("unclean", 3)):
            self._create_topic(name, factor)
        while self.now < troubled_ms and not self.violations:
            self._step()
            if self.now > 2_000 and (self.now // 2_500) % 4:
                self._make_trouble()
        self._heal()
        while self.now < troubled_ms + healing_ms and not self.violations:
            self._step()
        if not self.violations:
            self._check_recovered()

    def trace(self) -> str:
        """A digest of everything that was decided."""
        return hashlib.sha256(repr((self.log, self.now, self.violations)).encode()).hexdigest()

    def _step(self) -> None:
        self.now += STEP_MS
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        deadline = self.machine.deadline()
        if self._active not in self._paused and deadline is not None and deadline <= self.now:
            self._decide(Tick())
        for broker in self.brokers.values():
            if broker.is_running:
                broker.step()

    def _later(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._count, event))

    def send(self, broker: SimBroker, command: ControllerCommand, reply: Callable[[Reply], None]) -> None:
        """To the active controller, as far as the broker knows. Sometimes an old copy arrives much later."""
        if broker.is_cut_off:
            return
        node = self._active if self._random.random() < 0.9 else self._random.choice(NODES)
        delay = 5_000 if self._random.random() < 0.02 else self._random.randrange(0, 150)
        self._later(delay, lambda: self._deliver(node, broker, command, reply))
        if self._random.random() < 0.03:
            self._later(self._random.randrange(1_000, 9_000), lambda: self._deliver(node, broker, command, ignore))

    def _deliver(
        self, node: int, broker: SimBroker, command: ControllerCommand, reply: Callable[[Reply], None]
    ) -> None:
        if node in self._paused:
            self._paused[node].append(lambda: self._deliver(node, broker, command, reply))
            return
        answer: ControllerAnswer | None = Refusal(ErrorCode.NOT_CONTROLLER)
        if node == self._active:
            answer = self._decide(command)
        if self._random.random() < 0.95 and not broker.is_cut_off:
            assert isinstance(answer, Reply)
            heard = answer
            self._later(self._random.randrange(0, 100), lambda: reply(heard))

    def are_connected(self, one: SimBroker, other: SimBroker) -> bool:
        return one.is_running and other.is_running and (min(one.id, other.id), max(one.id, other.id)) not in self._cuts

    # The controller

    def _elect(self, node: int) -> None:
        """A controller takes over: from the log, or from a snapshot; both must be what the last one had."""
        before = self.machine.image
        replayed = image_of(self.log)
        snapshot = image_of([decode(encode(fact)[1]) for fact in replayed.facts()])
        if not cluster_state(before) == cluster_state(replayed) == cluster_state(snapshot):
            self.violations.append("a snapshot or the log does not make the image of the controller")
        self._active, self.epoch = node, self.epoch + 1
        self.log.append(NoOp())  # where the quorum has its change of leaders
        self.machine = ControllerMachine(TopicDefaults(2, 3), RULES)
        start = self._random.choice([list(replayed.facts()), self.log[:-1]])
        for fact in [*start, NoOp()]:
            self.machine.apply(fact)
        self._decide(Activate(self.epoch, Offset(len(self.log)), {"metadata.version": 20}, "2"))

    def _decide(self, command: ControllerCommand | Tick) -> ControllerAnswer | None:
        now = Instant(Millis(self.now), Millis(self.now))
        decision = self.machine.decide(Ticket(1), command, now)
        for fact in decision.facts:
            if not isinstance(fact, SessionFact):
                self.log.append(decode(encode(fact)[1]))
            self.machine.apply(fact)
        self._check(command)
        answers = [answer for _, answer in decision.answers]
        if isinstance(command, RegisterBroker) and isinstance(answers[0], Registered):
            self._registered(command, answers[0])
        return answers[0] if answers else None

    def _registered(self, command: RegisterBroker, answer: Registered) -> None:
        record = self.log[answer.broker_epoch] if answer.broker_epoch < len(self.log) else None
        if not isinstance(record, BrokerRegistered) or record.broker != command.broker:
            self.violations.append(f"broker epoch {answer.broker_epoch} is not the offset of its registration")
        broker = self.brokers[command.broker]
        if broker.lifecycle._registration == command:
            broker.lost_disk = False

    # What must hold

    def _check(self, command: object) -> None:
        try:
            self.machine.check()
        except AssertionError as wrong:
            self.violations.append(f"{type(command).__name__}: {wrong}")
        unwatched = {each.broker for each in self.machine.image.brokers.values() if not each.fenced}
        unwatched -= self.machine.sessions.watched
        if unwatched:
            self.violations.append(f"nothing would fence brokers {unwatched} if they failed")
        if self.machine.sessions.next_offset != len(self.log):
            self.violations.append("the controller does not know the end of its log")
        present = {(topic.id, part.index): (topic, part) for topic, part in self.machine.image.partitions()}
        for key, (topic, partition) in present.items():
            if cluster_value(self.machine.image, topic.configs, "unclean.leader.election.enable") == "true":
                self._may_lose.add(topic.id)
            old = self._history.get(key)
            if partition != old:
                self._check_partition(command, key, topic, old, partition)
        self._history = {key: partition for key, (_, partition) in present.items()}

    def _check_partition(
        self, command: object, key: Key, topic: TopicImage, old: PartitionImage | None, new: PartitionImage
    ) -> None:
        where = f"{type(command).__name__}: {topic.name}-{key[1]}: {old} → {new}"
        if old is not None:
            if new.partition_epoch <= old.partition_epoch or new.leader_epoch < old.leader_epoch:
                self.violations.append(f"an epoch does not grow: {where}")
            if new.leader != old.leader and new.leader_epoch == old.leader_epoch:
                self.violations.append(f"two leaders in one epoch: {where}")
        if topic.id in self._may_lose:
            return
        if old is not None and new.has_leader and new.leader != old.leader:
            joining = new.isr if isinstance(command, AlterPartition) else ()  # it completes a reassignment
            if new.leader not in {*old.isr, *joining}:
                self.violations.append(f"the leader was not in sync: {where}")
        self._check_logs(key, new, where)

    def _check_logs(self, key: Key, partition: PartitionImage, where: str) -> None:
        committed = self._committed.get(key, [])
        for member in partition.isr:
            broker = self.brokers[member]
            if not broker.lost_disk and broker.logs.get(key, [])[: len(committed)] != committed:
                self.violations.append(f"broker {member} is in sync and lacks committed records: {where}")
        leader = self.brokers[partition.leader].leaders.get(key) if partition.has_leader else None
        is_present = leader is not None and leader.epoch == partition.leader_epoch
        if leader is not None and is_present and not set(partition.isr) <= leader.maximal_isr():
            self.violations.append(f"the leader does not count on {set(partition.isr)}: {where}")

    def check_write(self, broker: SimBroker, key: Key, leader: Leader) -> None:
        """A leader accepts a write by the cluster's min.insync.replicas, not by that of its own file."""
        topic = broker.image.topics_by_id[key[0]]
        needed = int(cluster_value(broker.image, topic.configs, "min.insync.replicas"))
        if len(leader.isr) < min(needed, len(topic.partitions[key[1]].replicas)):
            self.violations.append(f"broker {broker.id} accepts a write with {leader.isr}, {needed} are needed")

    def committed_by(self, broker: SimBroker, key: Key, leader: Leader) -> None:
        if key[0] in self._may_lose or key[0] not in self.machine.image.topics_by_id:
            return
        committed = self._committed.setdefault(key, [])
        entries = broker.logs[key][: leader.high_watermark]
        if entries[: len(committed)] != committed[: len(entries)]:
            self.violations.append(f"broker {broker.id} has lost committed records of {key[1]}")
        elif len(entries) > len(committed):
            self._committed[key] = entries

    def _check_recovered(self) -> None:
        for broker in self.brokers.values():
            if not broker.is_running or broker.lifecycle.phase is not Phase.RUNNING or broker.lifecycle.is_fenced:
                self.violations.append(f"broker {broker.id} does not recover: {broker.lifecycle.phase}")
        for topic, partition in self.machine.image.partitions():
            if set(partition.isr) != set(partition.replicas) or not partition.has_leader or partition.is_reassigning:
                self.violations.append(f"{topic.name}-{partition.index} does not recover: {partition}")

    # Troubles

    def new_number(self) -> int:
        self._count += 1
        return self._count

    def _make_trouble(self) -> None:
        if any(broker.lost_disk for broker in self.brokers.values()):
            self._cuts.clear()
            for broker in self.brokers.values():  # one lost disk at a time, and no other failure meanwhile
                broker.is_cut_off = False
                if not broker.is_running:
                    broker.start()
            return
        if self._random.random() > 0.12:
            return
        broker = self._random.choice(list(self.brokers.values()))
        trouble = self._random.choice(
            [self._kill, self._kill, self._stop, self._cut, self._cut_off, self._change_controller, self._pause]
            + [self._administer] * 3
        )
        trouble(broker)

    def _kill(self, broker: SimBroker) -> None:
        if not broker.is_running:
            in_sync = any(broker.id in partition.isr for _, partition in self.machine.image.partitions())
            if not in_sync and self._random.random() < 0.4:
                broker.lose_disk()
            broker.start()
            return
        epoch = broker.lifecycle.broker_epoch
        broker.kill()
        if epoch is not None and self._random.random() < 0.5:
            gone = BrokerDisconnected(broker.id, epoch)
            self._later(50, lambda: self._deliver_quietly(gone))
        self._later(self._random.randrange(100, 8_000), lambda: None if broker.is_running else broker.start())

    def _deliver_quietly(self, command: ControllerCommand) -> None:
        if self._active not in self._paused:
            self._decide(command)

    def _stop(self, broker: SimBroker) -> None:
        if broker.is_running:
            broker.shut_down()

    def _cut(self, broker: SimBroker) -> None:
        other = self._random.choice([each for each in self.brokers.values() if each is not broker])
        cut = (min(broker.id, other.id), max(broker.id, other.id))
        self._cuts.add(cut)
        self._later(self._random.randrange(500, 5_000), lambda: self._cuts.discard(cut))

    def _cut_off(self, broker: SimBroker) -> None:
        broker.is_cut_off = True
        self._later(self._random.randrange(200, 7_000), lambda: setattr(broker, "is_cut_off", False))

    def _change_controller(self, broker: SimBroker) -> None:
        self._elect(self._random.choice(NODES))

    def _pause(self, broker: SimBroker) -> None:
        """A node stands still: the others elect a controller, and what is in its sockets waits."""
        node = self._active
        if node in self._paused or len(self._paused) == 2:
            return
        self._paused[node] = []
        self._elect(self._random.choice([other for other in NODES if other not in self._paused]))
        self._later(self._random.randrange(500, 6_000), lambda: self._go_on(node))

    def _go_on(self, node: int) -> None:
        waiting = self._paused.pop(node, [])
        if self._random.random() < 0.5:
            self._elect(node)
        for event in waiting:
            event()

    def _administer(self, broker: SimBroker) -> None:
        if self._active in self._paused:
            return
        random, name = self._random, self._random.choice(TOPICS)
        index = random.randrange(3)
        match random.randrange(9):
            case 0 | 1:
                self._create_topic(name, random.choice([2, 3]))
            case 2:
                self._decide(DeleteTopics(((name, None),)))
            case 3:
                self._decide(CreatePartitions((PartitionIncrease(name, 3),)))
            case 4 | 5:
                chosen = tuple(random.sample(sorted(self.brokers), random.choice([2, 3])))
                self._decide(Reassign((Reassignment(name, index, random.choice([chosen, chosen, None])),)))
            case 6:
                if not broker.is_running:
                    self._decide(UnregisterBroker(broker.id))
            case 7:
                self._decide(ElectLeaders(Election.PREFERRED, ((name, index),)))
            case _:
                edit = ConfigEdit("min.insync.replicas", Alteration.SET, random.choice(["1", "2"]))
                kind, resource = random.choice([(ResourceType.TOPIC, name), (ResourceType.BROKER, "")])
                self._decide(AlterConfigs((ResourceEdits(kind, resource, (edit,)),)))

    def _create_topic(self, name: str, factor: int) -> None:
        configs = {"unclean.leader.election.enable": "true"} if name == "unclean" else {}
        topic = NewTopic(name, UUID(int=self._random.getrandbits(100) | 1), 2, factor, (), configs)
        self._decide(CreateTopics((topic,)))

    def _heal(self) -> None:
        self._cuts.clear()
        for node in list(self._paused):
            self._go_on(node)
        for broker in self.brokers.values():
            broker.is_cut_off = False
            if not broker.is_running or broker.lifecycle.phase is Phase.PENDING_SHUTDOWN:
                broker.kill()
                broker.start()


def image_of(facts: list[MetadataFact]) -> ClusterImage:
    image = ClusterImage()
    for fact in facts:
        image.apply(fact)
    return image


def run_history(seed: int) -> ControllerWorld:
    """One history to its end, or to its first violation."""
    world = ControllerWorld(seed)
    try:
        world.run()
    except AssertionError as wrong:
        world.violations.append(f"an assertion failed: {wrong}")
    return world


def ignore(answer: Reply) -> None:
    """The answer to a copy that nobody waits for."""


if __name__ == "__main__":
    history = run_history(int(sys.argv[1]))
    for offset, written in enumerate(history.log):
        print(offset, written)
    print(history.now, "ms", history.violations or "nothing was violated", history.trace())
