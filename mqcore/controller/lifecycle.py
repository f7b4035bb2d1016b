"""Machine: a broker's side of its membership: register, send heartbeats, stop in good order. KIP-631.

STARTING → RECOVERY → RUNNING → PENDING_SHUTDOWN → ENDED. The shell sends what `next_request` returns to the active
controller and reports what came back. One request is under way at a time, and only its own answer counts, so an answer
from before a new registration changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from mqcore.config import BrokerConfig
from mqcore.controller.cluster_commands import Heartbeat, HeartbeatAnswer, RegisterBroker, Registered
from mqcore.identity import Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal


class Phase(Enum):
    STARTING = "starting"
    """Not registered yet."""
    RECOVERY = "recovery"
    """Registered and fenced: the broker applies the metadata and opens its logs."""
    RUNNING = "running"
    PENDING_SHUTDOWN = "pending shutdown"
    """The broker hands over what it leads, until the controller lets it go."""
    ENDED = "ended"


TRANSITIONS: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.STARTING: frozenset({Phase.RECOVERY, Phase.ENDED}),
    Phase.RECOVERY: frozenset({Phase.STARTING, Phase.RUNNING, Phase.PENDING_SHUTDOWN, Phase.ENDED}),
    Phase.RUNNING: frozenset({Phase.STARTING, Phase.PENDING_SHUTDOWN, Phase.ENDED}),
    Phase.PENDING_SHUTDOWN: frozenset({Phase.ENDED}),
    Phase.ENDED: frozenset(),
}

UNKNOWN_EPOCH: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    heartbeat_ms: int = 500
    shutdown_heartbeat_ms: int = 100
    retry_ms: int = 100
    search_ms: int = 25
    """How soon to ask again when no active controller was found: it is being elected, and then answers at once."""
    shutdown_timeout_ms: int = 10_000

    @classmethod
    def of(cls, config: BrokerConfig) -> LifecycleRules:
        return cls(
            heartbeat_ms=config.broker_heartbeat_interval_ms, shutdown_timeout_ms=config.controlled_shutdown_timeout_ms
        )


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer came: no active controller is known, the connection broke, or the request took too long."""


Request = RegisterBroker | Heartbeat
Answer = Registered | HeartbeatAnswer | Refusal | Unreachable


class BrokerLifecycle:
    def __init__(self, registration: RegisterBroker, rules: LifecycleRules, now_ms: Millis) -> None:
        self.phase = Phase.STARTING
        self.broker_epoch: int | None = None
        self.is_fenced = True
        """Whether the controller takes this broker for fenced, as far as the broker knows."""
        self._registration = registration
        self._rules = rules
        self._open: Request | None = None
        self._next_ms = now_ms
        self._end_ms: Millis | None = None
        self._logs_are_open = False

    def next_request(self, applied: Offset, now_ms: Millis) -> Request | None:
        """What to send now; None if nothing is due. `applied`: metadata below this offset is in effect here."""
        if self._end_ms is not None and now_ms >= self._end_ms:
            self._enter(Phase.ENDED)
        if self.phase is Phase.ENDED or self._open is not None or now_ms < self._next_ms:
            return None
        self._open = self._registration if self.broker_epoch is None else self._heartbeat(self.broker_epoch, applied)
        return self._open

    def _heartbeat(self, broker_epoch: int, applied: Offset) -> Heartbeat:
        return Heartbeat(
            self._registration.broker,
            broker_epoch,
            applied,
            wants_fence=self.phase is Phase.RECOVERY and not self._logs_are_open,
            wants_shutdown=self.phase is Phase.PENDING_SHUTDOWN,
        )

    def answered(self, request: Request, answer: Answer, now_ms: Millis) -> None:
        if request is not self._open:
            return
        self._open = None
        self._next_ms = Millis(now_ms + self._rules.retry_ms)
        match answer:
            case Registered(broker_epoch):
                self.broker_epoch = broker_epoch
                self._enter(Phase.RECOVERY)
                self._next_ms = now_ms
            case HeartbeatAnswer():
                assert isinstance(request, Heartbeat)
                self._heard(request, answer, now_ms)
            case Refusal(error) if error in UNKNOWN_EPOCH and self.broker_epoch is not None:
                self._lose_registration()
                self._next_ms = now_ms
            case Unreachable():
                self._next_ms = Millis(now_ms + self._rules.search_ms)
            case Refusal():
                pass  # ask again: the session of an earlier life has not ended

    def _heard(self, heartbeat: Heartbeat, answer: HeartbeatAnswer, now_ms: Millis) -> None:
        self.is_fenced = answer.is_fenced
        interval = self._rules.heartbeat_ms
        if self.phase is Phase.PENDING_SHUTDOWN:
            interval = self._rules.shutdown_heartbeat_ms
            if answer.should_shut_down:
                self._enter(Phase.ENDED)
        elif self.phase is Phase.RECOVERY and not answer.is_fenced:
            self._enter(Phase.RUNNING)
        elif self.phase is Phase.RECOVERY and heartbeat.wants_fence and self._logs_are_open:
            interval = 0  # the logs were opened while this heartbeat was under way
        self._next_ms = Millis(now_ms + interval)

    def _lose_registration(self) -> None:
        """The controller does not know this life of the broker. One that is stopping has nothing to hand over then."""
        self.broker_epoch, self.is_fenced = None, True
        self._enter(Phase.ENDED if self.phase is Phase.PENDING_SHUTDOWN else Phase.STARTING)

    def connection_lost(self, now_ms: Millis) -> None:
        """The controller ends the session of a broker whose connection broke, unless it hears of the broker soon."""
        self._next_ms = min(self._next_ms, Millis(now_ms + self._rules.retry_ms))

    def logs_opened(self, now_ms: Millis) -> None:
        """All logs that the metadata names are open, so the broker can lead."""
        self._logs_are_open = True
        self._next_ms = now_ms

    def shut_down(self, now_ms: Millis) -> None:
        """Begin to stop. A broker that is not registered leads nothing and ends at once."""
        if self.phase in (Phase.PENDING_SHUTDOWN, Phase.ENDED):
            return
        self._enter(Phase.ENDED if self.broker_epoch is None else Phase.PENDING_SHUTDOWN)
        self._end_ms = Millis(now_ms + self._rules.shutdown_timeout_ms)
        self._next_ms = now_ms

    def knows_its_replicas(self, applied: Offset) -> bool:
        """Whether the applied metadata include this registration, so that a folder they do not name is a stray.

        Older metadata, or none after the loss of a disk, would put good replicas aside.
        """
        return self.broker_epoch is not None and applied > self.broker_epoch

    def deadline(self) -> Millis | None:
        """When `next_request` has something to do."""
        if self.phase is Phase.ENDED:
            return None
        due = [at for at in (self._end_ms, None if self._open is not None else self._next_ms) if at is not None]
        return min(due, default=None)

    def check(self) -> None:
        assert (self.broker_epoch is None) == (self.phase is Phase.STARTING) or self.phase is Phase.ENDED
        assert self.is_fenced or self.broker_epoch is not None
        assert self._end_ms is None or self.phase in (Phase.PENDING_SHUTDOWN, Phase.ENDED)

    def _enter(self, phase: Phase) -> None:
        assert phase is self.phase or phase in TRANSITIONS[self.phase], f"{self.phase.value} → {phase.value}"
        self.phase = phase
        if phase is Phase.ENDED:
            self._open = None  # an answer that still comes changes nothing
