"""Shell: one broker: puts the rooms together, in the order of a start, and takes them apart in the order of a stop.

Start: data folder → metadata log → this broker registers → its partitions open → doors open.
Stop:  doors close → answers drain → logs flush and close → clean mark, last of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

from mqcore import descriptors, gauges, housekeeping, meta
from mqcore.apis.services import Services
from mqcore.clock import SystemClock
from mqcore.config import BrokerConfig
from mqcore.controller import records
from mqcore.controller.commands import CreateTopics, NewTopic, RegisterBroker
from mqcore.controller.facts import (
    ConfigChanged,
    Endpoint,
    LeaderChanged,
    MetadataFact,
    PartitionCreated,
    ResourceType,
    TopicRemoved,
)
from mqcore.controller.image import METADATA_TOPIC
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.controller.settings import DEFAULT_RESOURCE
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.journal import JournalFault
from mqcore.coordination.partition_journal import UNREADABLE, PartitionJournal
from mqcore.disk.lock import DirectoryLock
from mqcore.disk.posix import PosixDisk
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.groups.rules import GroupRules
from mqcore.identity import BrokerId, LeaderEpoch, TopicPartition
from mqcore.log.clean_mark import take_clean_mark, write_clean_mark
from mqcore.metrics import Metrics
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.faults import contain_fault
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.server.doors import Doors, refuse_public_listeners
from mqcore.settings import TopicSettings
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.frames import BadFrame

log = logging.getLogger(__name__)

METADATA = TopicPartition(METADATA_TOPIC, 0)
METADATA_ID = UUID("00000000-0000-0000-0000-000000000001")  # Kafka's well-known id of this topic
METADATA_BATCH_BYTES = 8 << 20  # of one command's records; Kafka's quorum has the same limit
METADATA_SETTINGS = {"flush.messages": "1", "retention.ms": "-1", "max.message.bytes": str(METADATA_BATCH_BYTES)}
OFFSETS = "__consumer_offsets"


class CannotStart(Exception):
    """The broker's own log cannot be used; the text says why."""


class Broker:
    def __init__(self, config: BrokerConfig) -> None:
        refuse_public_listeners(config)
        self.config = config
        self.metrics = Metrics()
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._clock = SystemClock(asyncio.get_running_loop())
        self._disk = PosixDisk(config.log_dirs)
        self._settings = TopicSettings(config.topic_defaults)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        open_files = descriptors.raise_limit()
        self._disk.make_directory("")
        self._lock = DirectoryLock(self.config.log_dirs)
        self._meta = meta.claim(self._disk, self.config.node_id, self.config.cluster_id)
        mark = take_clean_mark(self._disk)
        self._flusher = Flusher(self._disk_failed, self.metrics.syncs.cell())
        self.partitions = HostedPartitions(
            self._disk,
            self._clock,
            self._flusher,
            clean=mark is not None,
            producer_expiration_ms=self.config.producer_id_expiration_ms,
        )
        self._open_metadata()
        self._open_rooms(open_files)
        self.partitions.clean = clean = mark is not None and mark == self._broker_epoch()
        self.doors = Doors(self.services)
        bound = await self.doors.bind()
        await self._register(bound)
        self._open_partitions()
        self.observer.listen(self._learn)
        buffer_bytes = self.config.log_cleaner_dedupe_buffer_size
        cleaner = Cleaner(self._disk, self.partitions, self._clock, buffer_bytes=buffer_bytes)
        self._tasks = housekeeping.start(self.config, self.partitions, cleaner, self._clock, self._host)
        gauges.declare(self.metrics, self.partitions, self.groups, self._disk)
        await self.doors.open()
        log.info(
            "broker started",
            extra={
                "node": self.config.node_id,
                "cluster": self._meta.cluster_id,
                "partitions": len(self.partitions),
                "clean": clean,
                "data": self.config.log_dirs,
            },
        )

    def _broker_epoch(self) -> int:
        registered = self.observer.image.brokers.get(BrokerId(self.config.node_id))
        return 0 if registered is None else registered.broker_epoch

    # ── start ────────────────────────────────────────────────────────────────────────────────────

    def _open_metadata(self) -> None:
        opened = self.partitions.open(METADATA, METADATA_ID, LeaderEpoch(1), METADATA_SETTINGS)
        if opened is None:
            raise CannotStart(f"the metadata log cannot be opened: {self.partitions.offline[METADATA]}")
        self._metadata = opened
        self.observer = MetadataObserver(opened)
        try:
            self.observer.follow()
        except (BadFrame, *UNREADABLE) as bad:  # of a newer version, perhaps
            raise CannotStart(f"the metadata log cannot be understood: {bad}") from bad

    def _open_rooms(self, open_files: int) -> None:
        partitions = sum(len(topic.partitions) for topic in self.observer.image.topics.values())
        allowed = descriptors.connections_allowed(self.config.max_connections, open_files, partitions)
        config = replace(self.config, max_connections=allowed)
        machine = ControllerMachine(TopicDefaults.of(config), self._settings.check_broker_default)
        for fact in self.observer.replayed():
            machine.apply(fact)
        journal = PartitionJournal[MetadataFact](self._metadata, records.encode, self._clock, METADATA_BATCH_BYTES)
        self.controller = Controller(machine, journal, self._clock)
        self.groups = GroupCoordinator(
            GroupRules.of(config),
            self._clock,
            lambda topic: (
                len(self.observer.image.topics[topic].partitions) if topic in self.observer.image.topics else 0
            ),
            expiry_interval_ms=config.offsets_retention_check_interval_ms,
            forgotten=self._make_tombstones_durable,
        )
        self.services = Services(
            config=config,
            cluster_id=self._meta.cluster_id,
            directory_id=self._meta.directory_id,
            clock=self._clock,
            metrics=self.metrics,
            partitions=self.partitions,
            observer=self.observer,
            controller=self.controller,
            groups=self.groups,
            ensure_offsets_topic=self._ensure_offsets_topic,
            topic_defaults=self._settings.defaults,
            free_bytes=self._disk.free_bytes,
        )

    async def _register(self, bound: tuple[Endpoint, ...]) -> None:
        registered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        command = RegisterBroker(BrokerId(self.config.node_id), uuid4(), bound, self.config.broker_rack or None)
        self.controller.submit(command, registered.set_result)
        answer = await registered
        if isinstance(answer, JournalFault):
            raise CannotStart(f"the metadata log cannot be written: {answer}")

    def _open_partitions(self) -> None:
        image = self.observer.image
        self._take_broker_defaults()
        for topic in list(image.topics.values()):
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.index)
                try:
                    self._host(name, topic.id)
                except Exception:  # the other partitions have to be served
                    log.exception("a partition could not be taken over", extra={"partition": str(name)})
        self.partitions.put_strays_aside()

    # ── what metadata say ────────────────────────────────────────────────────────────────────────

    def _learn(self, fact: MetadataFact) -> None:
        image = self.observer.image
        match fact:
            case PartitionCreated():
                name = TopicPartition(image.topics_by_id[fact.topic_id].name, fact.index)
                self._host(name, fact.topic_id)
            case TopicRemoved():
                self._unhost(fact.topic_id)
            case LeaderChanged():
                partition = self.partitions.by_id(fact.topic_id, fact.index)
                if partition is not None:
                    partition.lead(image.topics_by_id[fact.topic_id].partitions[fact.index].leader_epoch)
            case ConfigChanged(ResourceType.TOPIC, topic):
                self._reconfigure(lambda partition: partition.topic == topic)
            case ConfigChanged(ResourceType.BROKER, broker) if broker in (DEFAULT_RESOURCE, str(self.config.node_id)):
                self._take_broker_defaults()
                self._reconfigure(lambda partition: True)
            case _:
                pass

    def _host(self, name: TopicPartition, topic_id: UUID) -> None:
        topic = self.observer.image.topics_by_id[topic_id]
        settings, leader_epoch = self._settings.of(topic.configs), topic.partitions[name.partition].leader_epoch
        partition = self.partitions.open(name, topic_id, leader_epoch, settings)
        if name.topic == OFFSETS:
            if partition is None:
                self.groups.cannot_lead(name.partition)
            else:
                self.groups.lead(name.partition, partition)

    def _unhost(self, topic_id: UUID) -> None:
        gone = self.partitions.names_of(topic_id)
        for name in gone:
            if name.topic == OFFSETS:
                self.groups.resign(name.partition)
            self.partitions.remove(name)
        if gone:
            self.groups.topic_deleted(gone[0].topic)

    def _make_tombstones_durable(self, offsets: Partition) -> None:
        """Before the next metadata command: a topic of the same name must not survive a power loss without them."""
        resume = self.controller.pause()
        offsets.when_durable(lambda fault: resume())

    def _take_broker_defaults(self) -> None:
        """What was changed at run time for this broker comes before what was changed for all."""
        of = partial(self.observer.image.configs, ResourceType.BROKER)
        self._settings.change_broker_defaults({**of(DEFAULT_RESOURCE), **of(str(self.config.node_id))})

    def _reconfigure(self, concerned: Callable[[Partition], bool]) -> None:
        for partition in self.partitions:
            topic = self.observer.image.topics.get(partition.topic)
            if topic is not None and concerned(partition):
                with contain_fault("a change of settings", partition):
                    partition.reconfigure(self._settings.config_of(topic.configs))

    def _ensure_offsets_topic(self, then: Callable[[ErrorCode], None]) -> None:
        if OFFSETS in self.observer.image.topics:
            then(ErrorCode.NONE)
            return
        topic = NewTopic(
            OFFSETS,
            uuid4(),
            self.config.offsets_topic_num_partitions,
            self.config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self.config.offsets_topic_segment_bytes),
            },
        )

        def made(answer: object) -> None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if isinstance(answer, tuple):
                refusal = answer[0]
                exists = isinstance(refusal, Refusal) and refusal.error is ErrorCode.TOPIC_ALREADY_EXISTS
                error = refusal.error if isinstance(refusal, Refusal) and not exists else ErrorCode.NONE
            then(error)

        self.controller.submit(CreateTopics((topic,), internal=True), made)

    # ── stop ─────────────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> None:
        """Drain, flush, close; the clean mark only if everything is whole."""
        for task in self._tasks:
            task.cancel()
        self.doors.close()
        self.groups.close()  # whoever waits for a rebalance is told to look elsewhere
        self.services.stopping = True
        for partition in self.partitions:
            partition.watchers.tell()  # whoever waits for records gets what there is
        await self.doors.drain(self.config.controlled_shutdown_timeout_ms / 1000)
        self._flusher.close()
        whole = self.partitions.close()
        if whole and not self.failed.done():
            write_clean_mark(self._disk, self._broker_epoch())
        self._lock.release()
        log.info("broker stopped", extra={"clean": whole})

    def _disk_failed(self, fault: Exception) -> None:
        """A sync failed: nobody knows what is on disk. Stop at once, without the clean mark."""
        log.critical("log directory failed", extra={"data": self.config.log_dirs, "reason": str(fault)})
        if not self.failed.done():
            self.failed.set_result(f"log directory failed: {fault}")
