"""Shell: the membership of a broker that is the whole cluster: its controller is in the same process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from mqcore.config import BrokerConfig
from mqcore.controller.active import ActiveController
from mqcore.controller.cluster_commands import RegisterBroker
from mqcore.controller.commands import ControllerAnswer
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import CommandTarget
from mqcore.coordination.journal import JournalFault
from mqcore.identity import BrokerId
from mqcore.metadata_log import CannotStart
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership

if TYPE_CHECKING:
    from mqcore.apis.forwarding import Forwarding
    from mqcore.assignments import Assignments, Replication
    from mqcore.replication.serving import ReplicaFetches

NEVER_REGISTERED: Final = -1
"""The first registration may have epoch 0."""


class Member(Protocol):
    """A broker's place in its cluster."""

    @property
    def controller(self) -> CommandTarget: ...

    @property
    def replication(self) -> Replication: ...

    @property
    def forwarding(self) -> Forwarding | None: ...

    @property
    def replica_fetches(self) -> ReplicaFetches | None: ...

    @property
    def broker_epoch(self) -> int: ...

    def membership(self) -> Membership: ...

    def on_lead(self) -> None:
        """This broker begins to lead a partition."""
        ...

    async def join(self, registration: RegisterBroker, assignments: Assignments) -> None:
        """Register, and take over what the metadata assign. Raises `CannotStart`."""
        ...

    async def leave(self) -> None: ...

    def close(self) -> None: ...


class NoReplication:
    """No other broker has anything to copy."""

    def follow(self, partition: Partition) -> None:
        pass

    def drop(self, partition: Partition) -> None:
        pass


class OnlyBroker:
    forwarding = None
    replica_fetches = None

    def __init__(self, config: BrokerConfig, controller: ActiveController, observer: MetadataObserver) -> None:
        self.controller = controller
        self.replication = NoReplication()
        self._observer = observer
        self._me = BrokerId(config.node_id)

    @property
    def broker_epoch(self) -> int:
        registered = self._observer.image.brokers.get(self._me)
        return NEVER_REGISTERED if registered is None else registered.broker_epoch

    def membership(self) -> Membership:
        return Membership(self._me, self.broker_epoch)

    def on_lead(self) -> None:
        """Nobody waits to copy it."""

    async def join(self, registration: RegisterBroker, assignments: Assignments) -> None:
        active: asyncio.Future[JournalFault | None] = asyncio.Future()
        self.controller.when_active(active.set_result)
        fault = await active
        if fault is None:
            registered: asyncio.Future[ControllerAnswer | JournalFault] = asyncio.Future()
            self.controller.submit(registration, registered.set_result)
            answer = await registered
            fault = answer if isinstance(answer, JournalFault) else None
        if fault is not None:
            raise CannotStart(f"the metadata log cannot be written: {fault}")
        assignments.begin()
        assignments.mark_strays()
        self._observer.add_listener(assignments.reconcile)

    async def leave(self) -> None:
        """There is no other broker to hand anything over to."""

    def close(self) -> None:
        pass
