"""Shell: brings the replicas of this broker, and the coordinators on top of them, in line with the cluster's metadata.

For each partition that the metadata have changed, it looks at what they say now and at what is here. So it does the
right thing after one change, after a hundred, after a snapshot, and when a log that was opened on a thread is ready.

Own rule: each partition is brought in line by itself. One that raises is logged, and the others still take effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Protocol, assert_never
from uuid import UUID

from mqcore.controller.image import ClusterImage, PartitionImage, TopicImage
from mqcore.controller.metadata_delta import (
    BrokerSettingsChanged,
    Change,
    MetadataDelta,
    PartitionTouched,
    TopicDeleted,
    TopicSettingsChanged,
)
from mqcore.controller.setting_layers import cluster_value, effective_settings
from mqcore.host import Clock
from mqcore.identity import BrokerId, TopicIdPartition, TopicPartition
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.follower import FollowerState
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term

log = logging.getLogger(__name__)

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Coordinator(Protocol):
    """Keeps its state in the partitions of one internal topic, and follows which of them this broker leads."""

    def lead(self, index: int, partition: Partition) -> None: ...

    def cannot_lead(self, index: int) -> None:
        """This broker should lead the partition, but its log could not be opened."""
        ...

    def resign(self, index: int) -> None: ...

    def topic_deleted(self, topic: str) -> None:
        """A topic that clients use was deleted."""
        ...


class Replication(Protocol):
    """Copies the partitions that this broker follows."""

    def follow(self, partition: Partition) -> None: ...

    def drop(self, partition: Partition) -> None: ...


class Assignments:
    """`coordinators`: by the name of their internal topic. `file_settings`: topic settings of the broker's file."""

    def __init__(
        self,
        image: ClusterImage,
        partitions: HostedPartitions,
        replication: Replication,
        coordinators: Mapping[str, Coordinator],
        membership: Callable[[], Membership],
        clock: Clock,
        *,
        file_settings: Mapping[str, str],
        threads: Executor | None = None,
        on_lead: Callable[[], None] = lambda: None,
    ) -> None:
        """`threads` open the logs, so that heartbeats go on meanwhile; a broker without others opens them at once.
        `on_lead` is called when this broker begins to lead a partition."""
        self._image = image
        self._partitions = partitions
        self._replication = replication
        self._coordinators = coordinators
        self._membership = membership
        self._clock = clock
        self._file_settings = file_settings
        self._threads = threads
        self._on_lead = on_lead
        self.terms_begun = 0
        """How often this broker began to lead a partition."""
        self.isr_shrinks = self.isr_expands = 0
        """Changes of the in-sync replicas of partitions that it led."""
        self._opening: set[TopicIdPartition] = set()
        self._me = membership().me
        self._delta = MetadataDelta(self._me)
        self.is_registered = False
        self._when_open: Callable[[], None] | None = None

    def begin(self) -> None:
        """The metadata include this broker's registration: carry out what they say, from now on."""
        self.is_registered = True
        self.reconcile()

    def mark_strays(self) -> None:
        """Rename the folders of partitions that this broker no longer has, so that no new topic takes them over."""
        self._partitions.mark_strays()

    def leave(self) -> None:
        """The controller does not know this registration any more. Lead and follow nothing until the next `begin`."""
        self.is_registered = False
        self._delta = MetadataDelta(self._me)
        for partition in self._partitions:
            if partition.topic in self._coordinators:
                self._coordinators[partition.topic].resign(partition.index)
            self._replication.drop(partition)
            partition.await_term("this broker is not registered")

    def reconcile(self) -> None:
        """Carry out everything that has changed since the last call."""
        if not self.is_registered:
            return
        for change in self._delta.take(self._image):
            try:
                self._carry_out(change)
            except Exception:
                log.exception("a metadata change could not be carried out", extra={"change": change})

    def when_all_are_open(self, then: Callable[[], None]) -> None:
        """Call `then` once every log that the metadata assign to this broker is open, or cannot be opened."""
        self._when_open = then
        self._check_all_open()

    def _carry_out(self, change: Change) -> None:
        match change:
            case TopicDeleted(topic):
                self._remove_topic(topic.id, topic.name)
            case PartitionTouched(topic_id, index):
                self._bring_in_line(topic_id, index)
            case TopicSettingsChanged(topic):
                self._reconfigure(lambda partition: partition.topic == topic)
            case BrokerSettingsChanged():
                self._reconfigure(lambda partition: True)
            case _:
                assert_never(change)

    # ── partitions ───────────────────────────────────────────────────────────────────────────────

    def _bring_in_line(self, topic_id: UUID, index: int) -> None:
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return  # deleted while its log was being opened
        wanted = topic.partitions[index]
        partition = self._partitions.by_id(topic_id, index)
        if self._me not in wanted.replicas:
            if partition is not None:
                self._give_up(partition)
        elif partition is not None:
            self._take_role(partition, topic, wanted)
        else:
            self.open_partition(TopicPartition(topic.name, index), topic_id)

    def open_partition(self, name: TopicPartition, topic_id: UUID) -> None:
        """Open the log of a partition of this broker, or try again. It gets its role when the log is open."""
        key, settings = TopicIdPartition(topic_id, name.partition), self._settings(self._image.topics_by_id[topic_id])
        if self._threads is None:
            self._partitions.open(name, topic_id, settings)
            self._opened(name, key)
        elif key not in self._opening:
            self._opening.add(key)
            self._partitions.open_on(self._threads, name, topic_id, settings, lambda opened: self._opened(name, key))

    def _opened(self, name: TopicPartition, key: TopicIdPartition) -> None:
        self._opening.discard(key)
        try:
            if self._partitions.by_id(*key) is not None:
                self._bring_in_line(*key)
            elif name.topic in self._coordinators:
                self._coordinators[name.topic].cannot_lead(name.partition)
        except Exception:
            log.exception("a partition could not take its role", extra={"partition": str(name)})
        self._check_all_open()

    def _check_all_open(self) -> None:
        if self._when_open is not None and not self._opening:
            then, self._when_open = self._when_open, None
            then()

    def _take_role(self, partition: Partition, topic: TopicImage, wanted: PartitionImage) -> None:
        term = self._term(topic, wanted)
        was_leader = partition.leads and partition.leader_epoch == term.leader_epoch
        coordinator = self._coordinators.get(topic.name)
        if term.leader == self._me:
            self._replication.drop(partition)
            if was_leader and partition.term is not None:
                self._count_change(partition.term.isr, term.isr)
            partition.lead(term, self._membership(), self._clock.now().monotonic_ms)
            if not was_leader:
                self.terms_begun += 1
                self._on_lead()
                if coordinator is not None:
                    coordinator.lead(partition.index, partition)
        else:
            if coordinator is not None:
                coordinator.resign(partition.index)
            partition.follow(term, self._membership())
            if isinstance(partition.role, FollowerState):
                self._replication.follow(partition)
            else:
                self._replication.drop(partition)

    def _count_change(self, before: frozenset[BrokerId], isr: frozenset[BrokerId]) -> None:
        self.isr_shrinks += bool(before - isr)
        self.isr_expands += bool(isr - before)

    def _term(self, topic: TopicImage, wanted: PartitionImage) -> Term:
        return Term(
            wanted.leader,
            wanted.leader_epoch,
            wanted.partition_epoch,
            wanted.replicas,
            frozenset(wanted.isr),
            self._min_isr(topic, wanted),
        )

    def _min_isr(self, topic: TopicImage, wanted: PartitionImage) -> int:
        """A topic's own setting is a demand. A default must not make topics with fewer replicas unwritable."""
        value = int(cluster_value(self._image, topic.configs, MIN_INSYNC_REPLICAS))
        return value if MIN_INSYNC_REPLICAS in topic.configs else min(value, len(wanted.replicas))

    def _give_up(self, partition: Partition) -> None:
        """The replica was moved to other brokers."""
        if partition.topic in self._coordinators:
            self._coordinators[partition.topic].resign(partition.index)
        self._replication.drop(partition)
        self._partitions.remove(partition.name)

    # ── topics ───────────────────────────────────────────────────────────────────────────────────

    def _remove_topic(self, topic_id: UUID, topic: str) -> None:
        resigning = self._coordinators.get(topic)
        for name in self._partitions.names_of(topic_id):
            if resigning is not None:
                resigning.resign(name.partition)
            partition = self._partitions.by_id(topic_id, name.partition)
            if partition is not None:
                self._replication.drop(partition)
            self._opening.discard(TopicIdPartition(topic_id, name.partition))
            self._partitions.remove(name)
        for coordinator in self._coordinators.values():
            coordinator.topic_deleted(topic)

    def _reconfigure(self, is_concerned: Callable[[Partition], bool]) -> None:
        for partition in self._partitions:
            topic = self._image.topics.get(partition.topic)
            if topic is not None and is_concerned(partition):
                with contain_fault("a change of settings", partition):
                    partition.reconfigure(LogConfig.from_settings(self._settings(topic)))
                    self._bring_in_line(topic.id, partition.index)  # for min.insync.replicas

    def _settings(self, topic: TopicImage) -> dict[str, str]:
        return effective_settings(topic.configs, self._image, self._me, self._file_settings)
