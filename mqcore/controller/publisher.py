"""Shell: brings this broker's partitions, and the coordinators on top of them, in line with the cluster's metadata.

Own rule: each change is carried out by itself. One that raises is logged, and the others still take effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, assert_never
from uuid import UUID

from mqcore.controller.image import ClusterImage
from mqcore.controller.metadata_delta import (
    BrokerSettingsChanged,
    Change,
    LeaderEpochChanged,
    MetadataDelta,
    PartitionAdded,
    TopicDeleted,
    TopicSettingsChanged,
)
from mqcore.controller.setting_layers import effective_settings
from mqcore.identity import BrokerId, Millis, TopicPartition
from mqcore.log.topic_config import LogConfig
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term

log = logging.getLogger(__name__)


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


class MetadataPublisher:
    """`coordinators`: by the name of their internal topic. `file_settings`: topic settings of the broker's file."""

    def __init__(
        self,
        image: ClusterImage,
        partitions: HostedPartitions,
        coordinators: Mapping[str, Coordinator],
        *,
        node_id: int,
        file_settings: Mapping[str, str],
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._coordinators = coordinators
        self._node_id = node_id
        self._file_settings = file_settings
        self._delta = MetadataDelta(node_id)

    def publish(self) -> None:
        """Carry out everything that has changed since the last call."""
        for change in self._delta.take(self._image):
            try:
                self._carry_out(change)
            except Exception:
                log.exception("a metadata change could not be carried out", extra={"change": change})

    def _carry_out(self, change: Change) -> None:
        match change:
            case TopicDeleted(topic):
                self._remove_topic(topic.id, topic.name)
            case PartitionAdded(name, topic_id):
                self.open_partition(name, topic_id)
            case LeaderEpochChanged(topic_id, index, _):
                self._change_role(topic_id, index)
            case TopicSettingsChanged(topic):
                self._reconfigure(lambda partition: partition.topic == topic)
            case BrokerSettingsChanged():
                self._reconfigure(lambda partition: True)
            case _:
                assert_never(change)

    def open_partition(self, name: TopicPartition, topic_id: UUID) -> None:
        """Open the log of a partition of this broker, or try again; its coordinator, if it has one, takes over."""
        topic = self._image.topics_by_id[topic_id]
        partition = self._partitions.open(name, topic_id, self._settings(topic.configs))
        if partition is not None:
            self._take_role(partition)
        coordinator = self._coordinators.get(name.topic)
        if coordinator is not None:
            if partition is None:
                coordinator.cannot_lead(name.partition)
            else:
                coordinator.lead(name.partition, partition)

    def _remove_topic(self, topic_id: UUID, topic: str) -> None:
        resigning = self._coordinators.get(topic)
        for name in self._partitions.names_of(topic_id):
            if resigning is not None:
                resigning.resign(name.partition)
            self._partitions.remove(name)
        for coordinator in self._coordinators.values():
            coordinator.topic_deleted(topic)

    def _change_role(self, topic_id: UUID, index: int) -> None:
        partition = self._partitions.by_id(topic_id, index)
        if partition is not None:
            self._take_role(partition)

    def _take_role(self, partition: Partition) -> None:
        """Take the role that the metadata give. A term with another leader only waits: this broker has no peers."""
        image = self._image.topics_by_id[partition.topic_id].partitions[partition.index]
        min_isr = partition.log.config.min_insync_replicas
        isr, replicas = frozenset(image.isr), image.replicas
        term = Term(image.leader, image.leader_epoch, image.partition_epoch, replicas, isr, min_isr)
        me = Membership(BrokerId(self._node_id))
        if term.leader == me.me:
            partition.lead(term, me, Millis(0))
        else:
            partition.follow(term, me)

    def _reconfigure(self, is_concerned: Callable[[Partition], bool]) -> None:
        for partition in self._partitions:
            topic = self._image.topics.get(partition.topic)
            if topic is not None and is_concerned(partition):
                with contain_fault("a change of settings", partition):
                    partition.reconfigure(LogConfig.from_settings(self._settings(topic.configs)))
                    self._take_role(partition)

    def _settings(self, configs: Mapping[str, str]) -> dict[str, str]:
        return effective_settings(configs, self._image, self._node_id, self._file_settings)
