"""Carries out the troubles of a history."""

from __future__ import annotations

from functools import partial

from mqcore.identity import BrokerId
from tests.simulation.replication.broker import Broker
from tests.simulation.replication.events import Node
from tests.simulation.replication.network import STRAGGLE_RATE
from tests.simulation.replication.troubles import Trouble
from tests.simulation.replication.world import World


class Faults:
    def __init__(self, world: World, troubles: list[Trouble]) -> None:
        self._world = world
        self._events = world.events
        self._network = world.network
        self._controller = world.controller_node
        for trouble in troubles:
            self._events.at(trouble.at_ms - self._events.now, str(trouble), partial(self.cause, trouble))

    def cause(self, trouble: Trouble) -> None:
        brokers = self._world.brokers
        first, second = (brokers[BrokerId(number)] for number in trouble.brokers)
        node, controller = first.node, self._controller
        peers = [broker.node for broker in brokers.values() if broker is not first]
        match trouble.kind:
            case "kill" | "power":
                self._crash(trouble, [first])
            case "kill two":
                self._crash(trouble, [first, second])
            case "kill all" | "power all":
                self._crash(trouble, list(brokers.values()))
            case "pause":
                self._pause(trouble, node)
            case "pause controller":
                self._pause(trouble, controller)
            case "cut":
                self._cut(trouble, both_ways(node, second.node))
            case "one-way cut":
                self._cut(trouble, [(node, second.node)])
            case "isolate":
                self._cut(trouble, [pair for peer in peers for pair in both_ways(node, peer)])
            case "cut from controller":
                self._cut(trouble, both_ways(node, controller))
            case "controller's answers lost":
                self._cut(trouble, [(controller, node)])
            case "late images":
                self._clog(trouble, (node.name, "image"))
            case "late proposals":
                self._clog(trouble, (controller.name, "alter"))
            case "move leader":
                self._world.move_leaders(first.id)
            case "recreate topic":
                for partition in list(self._world.partitions):
                    self._world.recreate_topic(partition)
            case "flap":
                self._flap(first)
            case "stragglers":
                self._network.straggle_rate = 0.3
                self._events.at(trouble.duration_ms, "stragglers end", self._end_straggling)
            case _:
                raise AssertionError(trouble.kind)

    def _crash(self, trouble: Trouble, brokers: list[Broker]) -> None:
        if self._world.is_healing:
            return
        for broker in brokers:
            self._world.crash(broker, "power" if trouble.kind.startswith("power") else "kill")
            restart = partial(self._world.start_broker, broker)
            self._events.at(trouble.duration_ms, f"start {broker.node.name}", restart)

    def _flap(self, broker: Broker) -> None:
        """Restart it several times while proposals are late: it is gone again before the controller reads of it."""
        channel = (self._controller.name, "alter")
        self._network.clogged.add(channel)
        again = Trouble(self._events.now, "kill", (broker.id, broker.id), 100)
        for number in range(4):
            self._events.at(number * 600, "flap", partial(self._crash, again, [broker]))
        self._events.at(3000, "flap ends", partial(self._network.clogged.discard, channel))

    def _pause(self, trouble: Trouble, node: Node) -> None:
        node.is_paused = True
        self._events.at(trouble.duration_ms, f"resume {node.name}", node.resume)

    def _cut(self, trouble: Trouble, pairs: list[tuple[Node, Node]]) -> None:
        names = [(one.name, other.name) for one, other in pairs]
        self._network.cuts.update(names)
        self._events.at(trouble.duration_ms, "cut ends", partial(self._network.cuts.difference_update, names))

    def _clog(self, trouble: Trouble, channel: tuple[str, str]) -> None:
        self._network.clogged.add(channel)
        self._events.at(trouble.duration_ms, "clog ends", partial(self._network.clogged.discard, channel))

    def _end_straggling(self) -> None:
        self._network.straggle_rate = STRAGGLE_RATE


def both_ways(one: Node, other: Node) -> list[tuple[Node, Node]]:
    return [(one, other), (other, one)]
