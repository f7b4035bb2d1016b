"""Shell: keeps this broker a member of its cluster: carries out what its lifecycle asks for, at its times."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from mqcore.controller.cluster_commands import RegisterBroker
from mqcore.controller.commands import ControllerAnswer
from mqcore.controller.lifecycle import Answer, BrokerLifecycle, LifecycleRules, Phase, Request, Unreachable
from mqcore.controller.observer import MetadataObserver
from mqcore.controller.queue import CommandTarget
from mqcore.coordination.journal import JournalFault
from mqcore.host import Clock, Timer
from mqcore.identity import Millis
from mqcore.wire.errors import Refusal

log = logging.getLogger(__name__)

NO_CONTROLLER: Final = "no active controller"


class Registering:
    """`on_change` is called after each change of the phase or of `is_fenced`."""

    def __init__(
        self,
        registration: RegisterBroker,
        rules: LifecycleRules,
        controller: CommandTarget,
        observer: MetadataObserver,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._lifecycle = BrokerLifecycle(registration, rules, clock.now().monotonic_ms)
        self._controller = controller
        self._observer = observer
        self._clock = clock
        self._on_change = on_change
        self._last_state = self._state
        self._last_problem: str | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        self._advance()

    @property
    def phase(self) -> Phase:
        return self._lifecycle.phase

    @property
    def is_fenced(self) -> bool:
        return self._lifecycle.is_fenced

    @property
    def broker_epoch(self) -> int:
        """−1 while the broker is not registered."""
        epoch = self._lifecycle.broker_epoch
        return -1 if epoch is None else epoch

    @property
    def knows_its_replicas(self) -> bool:
        """Whether the applied metadata include this registration, so that a folder they do not name is a stray."""
        return self._lifecycle.knows_its_replicas(self._observer.applied_end)

    def connection_lost(self) -> None:
        """The connection to the controller broke, so the next heartbeat is due soon."""
        self._lifecycle.connection_lost(self._now_ms())
        self._set_timer()

    def logs_opened(self) -> None:
        """All logs that the metadata names are open, so the broker can lead."""
        self._lifecycle.logs_opened(self._now_ms())
        self._advance()

    def shut_down(self) -> None:
        """Hand over what this broker leads. The phase is ENDED when that is done, or has taken too long."""
        self._lifecycle.shut_down(self._now_ms())
        self._advance()

    def close(self) -> None:
        """Send nothing more."""
        self._cancel_timer()
        self._on_change = _nothing

    # ── one step ─────────────────────────────────────────────────────────────────────────────────

    @property
    def _state(self) -> tuple[Phase, bool]:
        return self._lifecycle.phase, self._lifecycle.is_fenced

    def _now_ms(self) -> Millis:
        return self._clock.now().monotonic_ms

    def _advance(self) -> None:
        request = self._lifecycle.next_request(self._observer.applied_end, self._now_ms())
        self._report()
        self._set_timer()  # before the request is sent, because its answer may come at once and set the next one
        if request is not None:
            self._controller.submit(request, partial(self._answered, request))

    def _answered(self, request: Request, answer: ControllerAnswer | JournalFault) -> None:
        self._log_problem(answer)
        told = Unreachable() if isinstance(answer, JournalFault) else cast(Answer, answer)
        self._lifecycle.answered(request, told, self._now_ms())
        self._report()
        self._set_timer()

    def _report(self) -> None:
        if self._state != self._last_state:
            self._last_state = self._state
            log.info("membership", extra={"phase": self.phase.value, "fenced": self.is_fenced})
            self._on_change()

    def _log_problem(self, answer: ControllerAnswer | JournalFault) -> None:
        """Once for each refusal, and once for all faults in a row, because requests are repeated until they succeed."""
        problem = None
        if isinstance(answer, Refusal):
            problem = answer.message or answer.error.name
            if problem != self._last_problem:
                log.warning("the controller has refused this broker", extra={"reason": problem})
        elif isinstance(answer, JournalFault):
            problem = NO_CONTROLLER
            if problem != self._last_problem:
                log.warning("no active controller has answered", extra={"reason": str(answer)})
        elif self._last_problem is not None:
            log.info("the controller has answered again")
        self._last_problem = problem

    def _set_timer(self) -> None:
        self._cancel_timer()
        deadline_ms = self._lifecycle.deadline()
        if deadline_ms is not None:
            self._timer = self._clock.call_later(max(deadline_ms - self._now_ms(), 0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._advance()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    pass
