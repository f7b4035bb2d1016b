"""Shell: one broker: connects the rooms in the order of a start, and disconnects them in the order of a stop.

Start: data folder → metadata quorum → register this broker → open its partitions → accept clients.
Stop:  hand over what it leads → accept no more clients → answer what is under way → flush and close the logs → write
       the clean mark.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from mqcore import cluster_gauges, data_folder, descriptors, gauges, housekeeping, topic_defaults
from mqcore.apis.services import Services
from mqcore.assignments import Assignments
from mqcore.config import BrokerConfig
from mqcore.controller.active import ActiveController, ControllerSettings
from mqcore.controller.cluster_commands import RegisterBroker, new_incarnation
from mqcore.controller.facts import Endpoint
from mqcore.controller.internal_topics import InternalTopic, InternalTopics
from mqcore.controller.sessions import ControllerRules
from mqcore.controller.snapshot_trigger import SnapshotTrigger
from mqcore.controller.topics import TopicDefaults
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.groups.rules import GroupRules
from mqcore.host import World
from mqcore.identity import OFFSETS_TOPIC, BrokerId
from mqcore.log.clean_mark import take_clean_mark, write_clean_mark
from mqcore.log.errors import LogFault
from mqcore.metadata_log import check_formatted, open_quorum, replay_metadata
from mqcore.metrics import Metrics
from mqcore.only_broker import Member, OnlyBroker
from mqcore.partitions.cleaner import Cleaner
from mqcore.partitions.durability import Durability
from mqcore.partitions.flusher import Flusher
from mqcore.partitions.free_space import FreeSpaceMonitor
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.retention_sweep import RetentionSweep
from mqcore.server.listeners import Listeners, refuse_public_listeners

log = logging.getLogger(__name__)

OPENING_THREADS = 2
METADATA_BATCH_BYTES = 8 << 20  # records of one command; Kafka's quorum has the same limit


class Broker:
    """Construction takes the data folder and replays the metadata log; `start` opens the rest and accepts clients."""

    def __init__(self, config: BrokerConfig, world: World) -> None:
        refuse_public_listeners(config, world.network)
        self.metrics = Metrics()
        self.failed: asyncio.Future[str] = asyncio.Future()
        """Done when the disk has failed, with the reason. The broker must be stopped then."""
        self._world = world
        self._tasks: list[asyncio.Task[None]] = []
        world.disk.make_directory("")
        self._lock = world.lock_folder()
        try:
            check_formatted(config, world.disk)
            self._folder = data_folder.claim_folder(world.disk, world.chance, config.node_id, config.cluster_id)
            self._clean_epoch = take_clean_mark(world.disk)
            syncs = self.metrics.syncs.cell()
            self._flusher = Flusher(self._on_disk_failure, syncs, world.clock, world.threads)
            is_clean = self._clean_epoch is not None
            self.partitions = HostedPartitions(world.disk, world.clock, self._flusher, is_clean=is_clean)
            self.quorum = open_quorum(
                config, world, self._folder, self._flusher, self._on_disk_failure, is_clean=is_clean
            )
            self.observer = replay_metadata(self.quorum, world)
        except BaseException:
            self._lock.release()
            raise
        self._durability = Durability(self.partitions, self._flusher, world.clock, world.threads)
        self._free_space = FreeSpaceMonitor(world.disk)
        self._cleaner = Cleaner(
            world.disk,
            self.partitions,
            self._durability,
            world.clock,
            world.threads,
            buffer_bytes=config.log_cleaner_dedupe_buffer_size,
            producer_expiration_ms=config.producer_id_expiration_ms,
        )
        image = self.observer.image
        partitions = sum(len(topic.partitions) for topic in image.topics.values())
        allowed = descriptors.connections_allowed(config.max_connections, world.open_files_max, partitions)
        self.config = replace(config, max_connections=allowed)
        self.controller = ActiveController(
            self.quorum, self.observer, world.clock, self._controller_settings(), lambda: self.quorum.lost_nodes()
        )
        self.member = self._make_member()
        self.groups = GroupCoordinator(
            GroupRules.of(self.config),
            world.clock,
            lambda topic: len(image.topics[topic].partitions) if topic in image.topics else 0,
            expiry_interval_ms=self.config.offsets_retention_check_interval_ms,
            on_topic_forgotten=self._make_tombstones_durable,
        )
        file_settings = topic_defaults.topic_settings(self.config.topic_defaults)
        self.assignments = Assignments(
            image,
            self.partitions,
            self.member.replication,
            {OFFSETS_TOPIC: self.groups},
            self.member.membership,
            world.clock,
            file_settings=file_settings,
            threads=world.threads.pool(OPENING_THREADS, "open") if self.is_in_cluster else None,
            on_lead=self.member.on_lead,
        )
        self.services = self._make_services(file_settings)
        self.listeners = Listeners(self.services)

    @property
    def is_in_cluster(self) -> bool:
        """Whether there are other brokers, or may be."""
        return len(self.config.voters()) > 1

    def _make_member(self) -> Member:
        """A broker of several is imported only then, so that a single one starts faster."""
        if not self.is_in_cluster:
            return OnlyBroker(self.config, self.controller, self.observer)
        from mqcore.cluster_member import ClusterMember

        return ClusterMember(
            self.config,
            self._world,
            self.quorum,
            self.observer,
            self.partitions,
            self.controller,
            self._folder.cluster_id,
        )

    def _controller_settings(self) -> ControllerSettings:
        return ControllerSettings(
            TopicDefaults.of(self.config),
            ControllerRules.of(self.config),
            METADATA_BATCH_BYTES,
            {},
            # What the file says counts only for a cluster that has no value yet.
            self.config.topic_defaults.get("min.insync.replicas"),
        )

    def _make_services(self, file_settings: dict[str, str]) -> Services:
        offsets_topic = InternalTopic(
            self.config.offsets_topic_num_partitions,
            self.config.offsets_topic_replicas,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self.config.offsets_topic_segment_bytes),
            },
        )
        return Services(
            config=self.config,
            cluster_id=self._folder.cluster_id,
            directory_id=self._folder.directory_id,
            clock=self._world.clock,
            network=self._world.network,
            chance=self._world.chance,
            metrics=self.metrics,
            partitions=self.partitions,
            durability=self._durability,
            free_space=self._free_space,
            quorum=self.quorum,
            observer=self.observer,
            controller=self.member.controller,
            groups=self.groups,
            internal_topics=InternalTopics(
                {OFFSETS_TOPIC: offsets_topic}, self.observer.image, self.member.controller, self._world.chance
            ),
            topic_defaults=file_settings,
            free_bytes=self._world.disk.free_bytes,
            forwarding=self.member.forwarding,
            replica_fetches=self.member.replica_fetches,
        )

    # ── start ────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Returns when clients are served. A broker of several waits until a majority of the controllers runs."""
        # A mark of another registration is stale: the folder was used after it was written.
        is_clean = self._clean_epoch is not None and (
            self.is_in_cluster or self._clean_epoch == self.member.broker_epoch
        )
        self.partitions.is_clean = is_clean
        bound = await self.listeners.bind()
        await self.listeners.open_controller()
        self.quorum.start()
        self.controller.start()
        snapshots = SnapshotTrigger(self.observer, self.config.metadata_log_max_record_bytes_between_snapshots)
        self.observer.add_listener(snapshots.check)
        await self.member.join(self._registration(bound), self.assignments)
        retention = RetentionSweep(
            self.partitions, self._world.clock, producer_expiration_ms=self.config.producer_id_expiration_ms
        )
        work = housekeeping.Work(self.partitions, self._durability, retention, self._free_space, self._cleaner)
        self._tasks = housekeeping.start(self.config, work, self._world.clock, self.assignments.open_partition)
        gauges.declare_gauges(self.metrics, self.partitions, self.groups, self._world.disk, self.quorum)
        cluster_gauges.declare_cluster_gauges(
            self.metrics,
            self.observer.image,
            self.partitions,
            self.quorum,
            self.assignments,
            lambda: self.observer.applied_end,
        )
        await self.listeners.open()
        log.info(
            "broker started",
            extra={
                "node": self.config.node_id,
                "cluster": self._folder.cluster_id,
                "partitions": len(self.partitions),
                "clean": is_clean,
                "data": self.config.log_dirs,
            },
        )

    def _registration(self, bound: tuple[Endpoint, ...]) -> RegisterBroker:
        chance = self._world.chance.new_uuid()
        return RegisterBroker(
            BrokerId(self.config.node_id),
            new_incarnation(data_folder.count_start(self._world.disk), chance) if self.is_in_cluster else chance,
            bound,
            self.config.broker_rack or None,
            directories=(self._folder.directory_id,),
            is_only_broker=not self.is_in_cluster,
        )

    def _make_tombstones_durable(self, offsets: Partition) -> None:
        """Hold the next metadata command until the tombstones of a deleted topic are durable. Otherwise a new topic of
        the same name could survive a power loss that the tombstones do not, and its groups would resume at old offsets.
        """
        resume = self.controller.pause()
        offsets.when_durable(lambda outcome: resume())

    # ── stop ─────────────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> None:
        """Answer what is under way, flush and close. The clean mark is written only if every log was closed cleanly."""
        await self.member.leave()
        for task in self._tasks:
            task.cancel()
        self.listeners.close()
        self.groups.close()  # members that wait for a rebalance are sent to look for another coordinator
        self.services.is_stopping = True
        for partition in self.partitions:
            partition.watchers.notify()  # fetches that wait for records are answered with what there is
            partition.append_watchers.notify()
        await self.listeners.drain(self.config.controlled_shutdown_timeout_ms / 1000)
        self.member.close()
        self._flusher.close()
        self._cleaner.close()
        closed_cleanly = all([self._close_quorum(), self._durability.close()])
        if closed_cleanly and not self.failed.done():
            write_clean_mark(self._world.disk, self.member.broker_epoch)
        self._lock.release()
        log.info("broker stopped", extra={"clean": closed_cleanly})

    def _close_quorum(self) -> bool:
        try:
            self.quorum.close()
        except (OSError, LogFault) as fault:
            log.error("metadata log not closed", extra={"reason": str(fault)})
            return False
        return True

    def _on_disk_failure(self, fault: Exception) -> None:
        """A sync failed, so the content of the disk is unknown. Ask to be stopped, and never write the clean mark."""
        log.critical("log directory failed", extra={"data": self.config.log_dirs, "reason": str(fault)})
        if not self.failed.done():
            self.failed.set_result(f"log directory failed: {fault}")
