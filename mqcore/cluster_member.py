"""Shell: what a broker of several has besides its rooms: its membership, and the connections to the other nodes."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from mqcore.apis.forwarding import Forwarding
from mqcore.config import BrokerConfig
from mqcore.controller.active import ActiveController
from mqcore.controller.channel import ControllerChannel, OtherNodes
from mqcore.controller.cluster_commands import RegisterBroker
from mqcore.controller.forwarder import Forwarder
from mqcore.controller.lifecycle import LifecycleRules, Phase
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.proposals import alter_through
from mqcore.controller.registering import Registering
from mqcore.controller.remote import RemoteController
from mqcore.host import World
from mqcore.identity import BrokerId
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderRules
from mqcore.partitions.roles import Membership
from mqcore.replication.alter_sender import AlterSender
from mqcore.replication.fetch_loop import FetchLoops, FetchRules, links_to_leaders
from mqcore.replication.serving import ReplicaFetches

if TYPE_CHECKING:
    from mqcore.assignments import Assignments
    from mqcore.raft.quorum import Quorum

log = logging.getLogger(__name__)


class ClusterMember:
    def __init__(
        self,
        config: BrokerConfig,
        world: World,
        quorum: Quorum,
        observer: MetadataObserver,
        partitions: HostedPartitions,
        here: ActiveController,
        cluster_id: str,
    ) -> None:
        self._config = config
        self._quorum = quorum
        self._world = world
        self._observer = observer
        self._me = me = BrokerId(config.node_id)
        self._assignments: Assignments | None = None
        self._has_strays_marked = False
        self._running = asyncio.Event()
        self._ended = asyncio.Event()
        self._registering: Registering | None = None
        self._remote = RemoteController(me, quorum, config.voters(), world.clock, world.network)
        forwarder = Forwarder(self._remote, here, observer, world.clock)
        self.controller = ControllerChannel(here, observer.image, OtherNodes(self._remote, forwarder, cluster_id))
        self.forwarding = Forwarding(forwarder, here)
        address = partial(self._address, config.inter_broker_listener)
        link_to = links_to_leaders(me, world.clock, world.network, address)
        rules = FetchRules(
            config.replica_fetch_wait_max_ms, config.replica_fetch_max_bytes, config.replica_fetch_response_max_bytes
        )
        self.replication = FetchLoops(link_to, world.clock, rules)
        self.replica_fetches = ReplicaFetches(
            partitions, world.clock, config.inter_broker_listener, config.fetch_max_bytes
        )
        self._proposals = AlterSender(
            me,
            partitions,
            world.clock,
            lambda: self.broker_epoch,
            alter_through(self.controller),
            config.replica_lag_time_max_ms,
        )
        self._rules = LeaderRules(lag_ms_max=config.replica_lag_time_max_ms)

    @property
    def broker_epoch(self) -> int:
        return -1 if self._registering is None else self._registering.broker_epoch

    def membership(self) -> Membership:
        return Membership(self._me, self.broker_epoch, self._is_eligible, self._rules)

    def on_lead(self) -> None:
        self.replica_fetches.begin_to_lead()

    def _is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool:
        registered = self._observer.image.brokers.get(broker)
        return registered is not None and registered.is_active and registered.broker_epoch == broker_epoch

    def _address(self, listener: str, broker: BrokerId) -> tuple[str, int] | None:
        registered = self._observer.image.brokers.get(broker)
        endpoints = () if registered is None else registered.endpoints
        return next(((each.host, each.port) for each in endpoints if each.listener == listener), None)

    # ── life ─────────────────────────────────────────────────────────────────────────────────────

    async def join(self, registration: RegisterBroker, assignments: Assignments) -> None:
        """Register, take over what the metadata assign, and return when the controller counts this broker as active."""
        self._assignments = assignments
        rules = LifecycleRules.of(self._config)
        self._registering = Registering(
            registration, rules, self.controller, self._observer, self._world.clock, self._follow_membership
        )
        self._remote.on_membership_lost = self._registering.connection_lost
        self._observer.add_listener(self._follow_metadata)
        self._remote.start()
        self._proposals.start()
        self._registering.start()
        await self._running.wait()

    def _follow_membership(self) -> None:
        registering = self._registering
        assert registering is not None and self._assignments is not None
        if registering.phase is Phase.STARTING:
            self._assignments.leave()
        if registering.phase is Phase.RUNNING:
            self._running.set()
        if registering.phase is Phase.ENDED:
            self._ended.set()
        self._follow_metadata()

    def _follow_metadata(self) -> None:
        """Carry out the metadata once they include this registration. Older ones would put good replicas aside."""
        registering, assignments = self._registering, self._assignments
        assert registering is not None and assignments is not None
        if not registering.knows_its_replicas:
            return
        if assignments.is_registered:
            assignments.reconcile()
            return
        assignments.begin()
        assignments.when_all_are_open(self._logs_are_open)

    def _logs_are_open(self) -> None:
        assert self._registering is not None and self._assignments is not None
        if not self._has_strays_marked:
            self._has_strays_marked = True
            self._assignments.mark_strays()
        self._registering.logs_opened()

    async def leave(self) -> None:
        """Hand over what this broker leads, the quorum last. Returns when the controller lets it go, or after the
        timeout."""
        if self._registering is not None:
            self._registering.shut_down()
            await self._ended.wait()
        self._quorum.resign()

    def close(self) -> None:
        """Ask nothing more of other nodes."""
        if self._registering is not None:
            self._registering.close()
        self._proposals.close()
        self.replication.close()
        self._remote.close()
