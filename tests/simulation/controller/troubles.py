"""What goes wrong in a history, and what an operator does meanwhile."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.controller.cluster_commands import (
    BrokerDisconnected,
    Election,
    ElectLeaders,
    Reassign,
    Reassignment,
    UnregisterBroker,
)
from mqcore.controller.commands import (
    Alteration,
    AlterConfigs,
    ConfigEdit,
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionIncrease,
    ResourceEdits,
)
from mqcore.controller.facts import ResourceType
from mqcore.controller.lifecycle import Phase
from mqcore.identity import BrokerId
from tests.simulation.controller.sim_broker import SimBroker

if TYPE_CHECKING:
    from tests.simulation.controller.controller_world import ControllerWorld

NODES = (1, 2, 3)
TOPICS = ("a", "b", "unclean")


class Troubles:
    def __init__(self, world: ControllerWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self.count = 0
        self._cuts: set[tuple[BrokerId, BrokerId]] = set()

    def is_cut(self, one: SimBroker, other: SimBroker) -> bool:
        return (min(one.id, other.id), max(one.id, other.id)) in self._cuts

    def make(self) -> None:
        if any(broker.lost_disk for broker in self._world.brokers.values()):
            self._cuts.clear()
            for broker in self._world.brokers.values():  # one lost disk at a time, and no other failure meanwhile
                broker.is_cut_off = False
                if not broker.is_running:
                    broker.start()
            return
        if self._random.random() > 0.12:
            return
        broker = self._random.choice(list(self._world.brokers.values()))
        trouble = self._random.choice(
            [self._kill, self._kill, self._stop, self._cut, self._cut_off, self._change_controller, self._pause]
            + [self._administer] * 3
        )
        self.count += 1
        trouble(broker)

    def _kill(self, broker: SimBroker) -> None:
        if not broker.is_running:
            in_sync = any(broker.id in partition.isr for _, partition in self._world.machine.image.partitions())
            if not in_sync and self._random.random() < 0.4:
                broker.lose_disk()
            broker.start()
            return
        epoch = broker.lifecycle.broker_epoch
        broker.kill()
        if epoch is not None and self._random.random() < 0.5:
            gone = BrokerDisconnected(broker.id, epoch)
            self._world.later(50, lambda: self._deliver_quietly(gone))
        self._world.later(self._random.randrange(100, 8_000), lambda: None if broker.is_running else broker.start())

    def _stop(self, broker: SimBroker) -> None:
        if broker.is_running:
            broker.shut_down()

    def _cut(self, broker: SimBroker) -> None:
        other = self._random.choice([each for each in self._world.brokers.values() if each is not broker])
        cut = (min(broker.id, other.id), max(broker.id, other.id))
        self._cuts.add(cut)
        self._world.later(self._random.randrange(500, 5_000), lambda: self._cuts.discard(cut))

    def _cut_off(self, broker: SimBroker) -> None:
        broker.is_cut_off = True
        self._world.later(self._random.randrange(200, 7_000), lambda: setattr(broker, "is_cut_off", False))

    def _change_controller(self, broker: SimBroker) -> None:
        self._world.elect(self._random.choice(NODES))

    def _pause(self, broker: SimBroker) -> None:
        """A node stands still: the others elect a controller, and what is in its sockets waits."""
        node = self._world.active
        if node in self._world.paused or len(self._world.paused) == 2:
            return
        self._world.paused[node] = []
        self._world.elect(self._random.choice([other for other in NODES if other not in self._world.paused]))
        self._world.later(self._random.randrange(500, 6_000), lambda: self._world.go_on(node))

    def _administer(self, broker: SimBroker) -> None:
        if self._world.active in self._world.paused:
            return
        random, name = self._random, self._random.choice(TOPICS)
        index = random.randrange(3)
        match random.randrange(9):
            case 0 | 1:
                self.create_topic(name, random.choice([2, 3]))
            case 2:
                self._world.decide(DeleteTopics(((name, None),)))
            case 3:
                self._world.decide(CreatePartitions((PartitionIncrease(name, 3),)))
            case 4 | 5:
                chosen = tuple(random.sample(sorted(self._world.brokers), random.choice([2, 3])))
                self._world.decide(Reassign((Reassignment(name, index, random.choice([chosen, chosen, None])),)))
            case 6:
                if not broker.is_running:
                    self._world.decide(UnregisterBroker(broker.id))
            case 7:
                self._world.decide(ElectLeaders(Election.PREFERRED, ((name, index),)))
            case _:
                edit = ConfigEdit("min.insync.replicas", Alteration.SET, random.choice(["1", "2"]))
                kind, resource = random.choice([(ResourceType.TOPIC, name), (ResourceType.BROKER, "")])
                self._world.decide(AlterConfigs((ResourceEdits(kind, resource, (edit,)),)))

    def create_topic(self, name: str, factor: int) -> None:
        configs = {"unclean.leader.election.enable": "true"} if name == "unclean" else {}
        topic = NewTopic(name, UUID(int=self._random.getrandbits(100) | 1), 2, factor, (), configs)
        self._world.decide(CreateTopics((topic,)))

    def heal(self) -> None:
        self._cuts.clear()
        for node in list(self._world.paused):
            self._world.go_on(node)
        for broker in self._world.brokers.values():
            broker.is_cut_off = False
            if not broker.is_running or broker.lifecycle.phase in (Phase.PENDING_SHUTDOWN, Phase.ENDED):
                broker.kill()
                broker.start()

    def _deliver_quietly(self, command: ControllerCommand) -> None:
        if self._world.active not in self._world.paused:
            self._world.decide(command)
