"""What must hold after every event: the properties of a replicated log, checked against what was ever committed.

The test keeps what no broker knows: how far any leader has ever raised the high watermark, and which record it then had
at each offset. Leaders that the controller has already replaced count, too, because they still acknowledge: a fetch
that was on its way may commit what the next leader has as well. The names of the properties follow J. Vanlightly's
TLA+ specification of Kafka's replication.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mqcore.identity import BrokerId, TopicIdPartition
from mqcore.partitions.leader import LeaderState
from tests.simulation.replication.broker import Broker
from tests.simulation.replication.controller import ControllerModel
from tests.simulation.replication.records import GONE, RecordId
from tests.simulation.replication.replica import Replica


class Violated(AssertionError):
    """A property does not hold. `name` is the property."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


@dataclass
class PartitionTruth:
    """`committed` are the records below the highest high watermark ever."""

    committed: list[RecordId] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.committed)


class Truth:
    """`tolerates_loss` is set by scenarios that are allowed to lose records: they compare what is left themselves."""

    def __init__(self, controller: ControllerModel, brokers: dict[BrokerId, Broker]) -> None:
        self._controller = controller
        self._brokers = brokers
        self.partitions = {partition: PartitionTruth() for partition in controller.terms}
        self.tolerates_loss = False
        self._is_changed = True
        self._found: Violated | None = None

    def recreated(self, old: TopicIdPartition, new: TopicIdPartition) -> None:
        """What was committed to a deleted topic no longer matters; the new one begins empty."""
        del self.partitions[old]
        self.partitions[new] = PartitionTruth()

    # ── what brokers and clients report ──────────────────────────────────────────────────────────

    def moved(self, broker: Broker, replica: Replica) -> None:
        self._is_changed = True
        truth = self.partitions.get(self._partition_of(broker, replica))
        if truth is not None and isinstance(replica.role, LeaderState):
            truth.committed += replica.content[truth.end : replica.high_watermark]

    def opened(self, broker: Broker, replica: Replica) -> None:
        self._is_changed = True
        replica.agreed = 0

    def acknowledged(self, partition: TopicIdPartition, number: int, count: int, offset: int, acks: int) -> None:
        if acks != -1 or self.tolerates_loss or partition not in self.partitions:
            return
        committed = self.partitions[partition].committed
        for delta in range(count):
            at = offset + delta
            if at >= len(committed):
                raise Violated(
                    "acknowledged is committed", f"{number + delta} at {at}, committed up to {len(committed)}"
                )
            if committed[at].number != number + delta:
                raise Violated("acknowledged is committed", f"{number + delta} at {at}, there is {committed[at]}")
            holders = [broker.id for broker in self._brokers.values() if self._has(broker, partition, at)]
            if len(holders) < self._controller.terms[partition].min_isr:
                raise Violated("acknowledged on enough replicas", f"{number + delta} is only on {holders}")

    def _has(self, broker: Broker, partition: TopicIdPartition, offset: int) -> bool:
        """Running or not: a process that is killed keeps its files."""
        if partition not in broker.replicas:
            return False
        content = broker.replicas[partition].content
        return offset < len(content) and content[offset] == self.partitions[partition].committed[offset]

    def acknowledges(self, replica: Replica, number: int, offset: int) -> None:
        """A leader is about to answer that the record is at `offset`, whatever acks its producer wanted.

        This runs inside a callback whose exceptions are only logged, so the next check raises it."""
        if offset >= len(replica.content) or replica.content[offset].number != number:
            self._found = Violated("acknowledged is in the leader's log", f"{number} at {offset}")

    def seen(self, partition: TopicIdPartition, offset: int, record: RecordId) -> None:
        if partition not in self.partitions:
            return
        committed = self.partitions[partition].committed
        if (offset >= len(committed) or committed[offset] != record) and not self.tolerates_loss:
            raise Violated("consistent read", f"{record} at {offset}, committed up to {len(committed)}")

    def lost_place(self, partition: TopicIdPartition, offset: int) -> None:
        if not self.tolerates_loss and partition in self.partitions:
            raise Violated("consistent read", f"offset {offset} is gone")

    # ── properties ───────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        if self._found is not None:
            raise self._found
        if not self._is_changed or self.tolerates_loss:
            return
        self._is_changed = False
        for partition, truth in self.partitions.items():
            term = self._controller.terms[partition]
            for broker in self._brokers.values():
                if not broker.node.is_running or partition not in broker.replicas:
                    continue
                replica = broker.replicas[partition]
                agreed = self._compare(replica, truth)
                if broker.id in term.isr and agreed < truth.end:
                    raise Violated("leader candidate completeness", self._lack(broker, replica, truth))
                if replica.high_watermark > min(agreed, truth.end):
                    raise Violated("log matching", self._lack(broker, replica, truth))
                if not isinstance(replica.role, LeaderState):
                    continue
                if term.leader == broker.id and term.leader_epoch == replica.leader_epoch:
                    if agreed < truth.end:
                        raise Violated("leader completeness", self._lack(broker, replica, truth))
                    maximal = replica.role.isr.maximal()
                    if not term.isr <= maximal:
                        detail = f"{broker.node.name} counts {sorted(maximal)}, the controller {sorted(term.isr)}"
                        raise Violated("replication quorum superset", detail)

    def controller_changed(self) -> None:
        self._is_changed = True
        for partition in self.partitions:
            for broker in self._brokers.values():
                if broker.node.is_running and partition in broker.replicas:
                    self.moved(broker, broker.replicas[partition])

    def _compare(self, replica: Replica, truth: PartitionTruth) -> int:
        """How far the replica has exactly what is committed."""
        content, committed = replica.content, truth.committed
        end = min(len(content), len(committed))
        while replica.agreed < end and content[replica.agreed] in (committed[replica.agreed], GONE):
            replica.agreed += 1
        return replica.agreed

    def _partition_of(self, broker: Broker, replica: Replica) -> TopicIdPartition:
        return next(key for key, value in broker.replicas.items() if value is replica)

    def _lack(self, broker: Broker, replica: Replica, truth: PartitionTruth) -> str:
        mine = replica.content[replica.agreed] if replica.agreed < len(replica.content) else "nothing"
        there = truth.committed[replica.agreed] if replica.agreed < truth.end else "nothing"
        return (
            f"{broker.node.name} has {mine} at {replica.agreed} where {there} is committed; "
            f"high watermark {replica.high_watermark}, committed up to {truth.end}"
        )
