"""Shell: the controller of this node. It decides while the node leads the metadata quorum, and refuses otherwise.

Each term has a machine of its own, which starts on a copy of the committed image.

Own rule: a term ends inside the call that reports the loss of leadership, before anything that the next leader has
written can be applied here. So no caller gets an answer that rests on records which the next leader has cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from mqcore.controller.cluster_commands import Activate, BrokerDisconnected
from mqcore.controller.commands import ControllerAnswer, ControllerCommand
from mqcore.controller.facts import ControllerFact, LogEndMoved
from mqcore.controller.machine import ControllerMachine
from mqcore.controller.observer import MetadataJournal, MetadataObserver
from mqcore.controller.queue import Controller
from mqcore.controller.sessions import ControllerRules
from mqcore.controller.topics import TopicDefaults
from mqcore.coordination.decision import Decision, Tick, Ticket
from mqcore.coordination.journal import JournalFault, NotController
from mqcore.coordination.runner import OnAnswer
from mqcore.host import Clock, Instant
from mqcore.identity import BrokerId, Offset
from mqcore.log.log import Log
from mqcore.partitions.waiting_requests import CommitOutcome, Committed, OnCommit, Watchers

log = logging.getLogger(__name__)


class MetadataQuorum(Protocol):
    """What the controller and its channel need of the quorum."""

    @property
    def leader(self) -> BrokerId | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def is_active(self) -> bool:
        """This node leads, and a record of its epoch is committed."""
        ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def offline_reason(self) -> str | None: ...

    @property
    def log(self) -> Log: ...

    @property
    def watchers(self) -> Watchers:
        """They run when the leader, this node's role or the watermark changes."""
        ...

    def resign(self) -> None: ...


class ControllerSettings(NamedTuple):
    """`features` and `min_insync_replicas` are the values for a cluster that has none yet."""

    defaults: TopicDefaults
    rules: ControllerRules
    batch_bytes_max: int
    features: Mapping[str, int]
    min_insync_replicas: str | None


OnActive = Callable[[JournalFault | None], None]


class ActiveController:
    """`lost_nodes` returns the nodes that this one cannot reach. A broker that died with the controller before has no
    connection to this one that could break, so it would keep what it leads for a whole session. A broker that lives
    sends its next heartbeat in time."""

    def __init__(
        self,
        quorum: MetadataQuorum,
        observer: MetadataObserver,
        clock: Clock,
        settings: ControllerSettings,
        lost_nodes: Callable[[], Iterable[BrokerId]] = tuple,
    ) -> None:
        self._quorum = quorum
        self._observer = observer
        self._clock = clock
        self._settings = settings
        self._lost_nodes = lost_nodes
        self._term: int | None = None  # the epoch in which this node is the active controller
        self._controller: Controller | None = None
        self._has_activated = False
        self._waiting: list[OnActive] = []

    def start(self) -> None:
        self._quorum.watchers.add(self, self._follow_quorum)
        self._follow_quorum()

    @property
    def is_active(self) -> bool:
        """Whether commands are decided here. The first ones may still wait for the activation."""
        return self._controller is not None

    def when_active(self, on_active: OnActive) -> None:
        """Call `on_active` once a term has begun, with the fault if its first records cannot be written."""
        if self._has_activated:
            on_active(None)
        else:
            self._waiting.append(on_active)

    def submit(self, command: ControllerCommand, on_answer: OnAnswer[ControllerAnswer]) -> None:
        """`on_answer` is called exactly once, now or later; with `NotController` unless this node stays active."""
        if self._controller is not None:
            self._controller.submit(command, on_answer)
        else:
            on_answer(self._why_inactive())

    def pause(self) -> Callable[[], None]:
        """Decide no further command of this term until the returned function is called. It must be called once."""
        return _nothing if self._controller is None else self._controller.pause()

    def _why_inactive(self) -> JournalFault:
        reason = self._quorum.offline_reason
        return NotController("this node is not the active controller") if reason is None else JournalFault(reason)

    # ── terms ────────────────────────────────────────────────────────────────────────────────────

    def _follow_quorum(self) -> None:
        quorum = self._quorum
        term = quorum.epoch if quorum.is_active else None
        if term == self._term:
            return
        controller, self._controller = self._controller, None
        self._term, self._has_activated = term, False
        if controller is not None:
            log.info("no longer the active controller", extra={"leader": quorum.leader})
            controller.stop(self._why_inactive())
        if term is not None:  # not in this call, because the quorum may be in the middle of an append
            self._clock.call_soon(partial(self._catch_up, term))

    def _catch_up(self, term: int) -> None:
        if term == self._term:
            self._observer.when_reached(Offset(self._quorum.high_watermark), partial(self._begin, term))

    def _begin(self, term: int, outcome: CommitOutcome) -> None:
        if term != self._term:
            return
        if not isinstance(outcome, Committed):
            self._end_waiting(JournalFault(outcome.reason))
            return
        settings = self._settings
        machine = ControllerMachine(settings.defaults, settings.rules)
        for fact in self._observer.image.facts():
            machine.apply(fact)
        journal = _QuorumJournal(self._quorum, MetadataJournal(self._observer, self._clock, settings.batch_bytes_max))
        self._controller = Controller(_OnQuorumLog(machine, journal), journal, self._clock)
        activate = Activate(term, journal.end, settings.features, settings.min_insync_replicas)
        self._controller.submit(activate, partial(self._activated, term))

    def _activated(self, term: int, answer: ControllerAnswer | JournalFault) -> None:
        if term != self._term:
            return
        if isinstance(answer, JournalFault):
            log.error("the controller could not start its term", extra={"epoch": term, "reason": str(answer)})
            self._end_waiting(answer)
            self._quorum.resign()
            return
        log.info("active controller", extra={"epoch": term})
        self._has_activated = True
        self._end_waiting(None)
        brokers = self._observer.image.brokers
        for node in self._lost_nodes():
            if node in brokers:
                self.submit(BrokerDisconnected(node, brokers[node].broker_epoch), lambda answer: None)

    def _end_waiting(self, fault: JournalFault | None) -> None:
        waiting, self._waiting = self._waiting, []
        for on_active in waiting:
            on_active(fault)


def _nothing() -> None:
    pass


class _QuorumJournal:
    """The journal of one term. `end` is where the next record goes, which is behind the log while batches wait for a
    sync."""

    def __init__(self, quorum: MetadataQuorum, journal: MetadataJournal) -> None:
        self._quorum = quorum
        self._journal = journal
        self._promised = Offset(0)

    @property
    def end(self) -> Offset:
        return Offset(max(self._promised, self._quorum.log.end_offset))

    def append(self, facts: Sequence[ControllerFact]) -> Offset:
        """The end of everything decided so far, because even an answer without facts rests on the facts before it."""
        self._promised = Offset(max(self._promised, self._journal.append(facts)))
        return self._promised

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        self._journal.when_committed(end, on_commit)


class _OnQuorumLog:
    """The machine, which learns before each decision where its next record goes.

    The quorum appends a record of its own when a voter is adopted, and the epoch of a broker is the offset of its
    registration.
    """

    def __init__(self, machine: ControllerMachine, journal: _QuorumJournal) -> None:
        self._machine = machine
        self._journal = journal
        self.apply = machine.apply
        self.deadline = machine.deadline
        self.check = machine.check

    def decide(
        self, ticket: Ticket, command: ControllerCommand | Tick, now: Instant
    ) -> Decision[ControllerFact, ControllerAnswer]:
        if self._machine.sessions.next_offset != self._journal.end:
            self._machine.apply(LogEndMoved(self._journal.end))
        return self._machine.decide(ticket, command, now)
