"""Machine: what only the active controller remembers: when each broker was last heard of, and what it has applied.

Own rule: a new controller gives every unfenced broker a full session, because it does not know when the broker was last
heard of. So a failed broker is fenced later after a change of controllers, and never a live one too early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from mqcore.config import BrokerConfig
from mqcore.controller.facts import (
    BrokerChanged,
    BrokerContacted,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerActivated,
    LeadersBalanced,
    LogEndMoved,
    MetadataFact,
    SessionFact,
)
from mqcore.controller.image import ClusterImage
from mqcore.identity import BrokerId, Millis, Offset


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """`None` for the balance interval: no automatic return to preferred leaders."""

    session_ms: int = 4_500
    disconnect_grace_ms: int = 500
    balance_interval_ms: int | None = 300_000

    @classmethod
    def of(cls, config: BrokerConfig) -> ControllerRules:
        balance_ms = config.leader_imbalance_check_interval_seconds * 1000
        return cls(
            session_ms=config.broker_session_timeout_ms,
            balance_interval_ms=balance_ms if config.auto_leader_rebalance_enable else None,
        )


class Sessions:
    def __init__(self, rules: ControllerRules) -> None:
        self.controller_epoch = -1
        self.next_offset = Offset(0)
        """The offset of the next kept fact."""
        self.next_balance_ms: Millis | None = None
        self.applied: dict[BrokerId, Offset] = {}
        self._rules = rules
        self._until: dict[BrokerId, Millis] = {}
        self._shutdown_offsets: dict[BrokerId, Offset] = {}

    def apply(self, fact: SessionFact, image: ClusterImage) -> None:
        match fact:
            case ControllerActivated():
                self._activate(fact, image)
            case BrokerContacted(broker, until_ms, applied):
                self._until[broker] = until_ms
                self.applied[broker] = applied
            case LeadersBalanced(next_ms):
                self.next_balance_ms = next_ms
            case LogEndMoved(next_offset):
                self.next_offset = next_offset
            case _:
                assert_never(fact)

    def follow(self, fact: MetadataFact) -> None:
        """A fact that is kept has been appended."""
        self.next_offset = Offset(self.next_offset + 1)
        match fact:
            case BrokerRegistered(broker) | BrokerUnregistered(broker):
                self._forget(broker)
            case BrokerChanged(broker):
                if fact.fenced:
                    self._until.pop(broker, None)
                if fact.enters_controlled_shutdown:
                    self._shutdown_offsets[broker] = self.next_offset
            case _:
                pass

    def _activate(self, fact: ControllerActivated, image: ClusterImage) -> None:
        self.controller_epoch, self.next_offset = fact.epoch, fact.next_offset
        until = Millis(fact.at_ms + self._rules.session_ms)
        self._until = {broker: until for broker, registered in image.brokers.items() if not registered.fenced}
        self.applied = {}
        self._shutdown_offsets = {
            broker: fact.next_offset
            for broker, registered in image.brokers.items()
            if registered.in_controlled_shutdown
        }
        interval = self._rules.balance_interval_ms
        self.next_balance_ms = None if interval is None else Millis(fact.at_ms + interval)

    def _forget(self, broker: BrokerId) -> None:
        self._until.pop(broker, None)
        self.applied.pop(broker, None)
        self._shutdown_offsets.pop(broker, None)

    @property
    def watched(self) -> frozenset[BrokerId]:
        """The brokers that have a session, ended or not."""
        return frozenset(self._until)

    def is_live(self, broker: BrokerId, now_ms: int) -> bool:
        return now_ms < self._until.get(broker, 0)

    def ends_at(self, broker: BrokerId) -> Millis:
        return self._until[broker]

    def first_silent(self, image: ClusterImage, now_ms: int) -> BrokerId | None:
        """The unfenced broker whose session ended first, if any has ended."""
        ended = [(until, broker) for broker, until in self._unfenced(image) if until <= now_ms]
        return min(ended, default=(0, None))[1]

    def first_end(self, image: ClusterImage) -> Millis | None:
        return min((until for _, until in self._unfenced(image)), default=None)

    def _unfenced(self, image: ClusterImage) -> Iterator[tuple[BrokerId, Millis]]:
        """The session of a fenced broker only keeps its id from others, so nothing happens when it ends."""
        return ((broker, until) for broker, until in self._until.items() if not image.brokers[broker].fenced)

    def may_leave(self, broker: BrokerId, image: ClusterImage) -> bool:
        """Whether all active brokers know of the leaders that replace this one."""
        needed = self._shutdown_offsets.get(broker, self.next_offset)
        others = (other for other, registered in image.brokers.items() if registered.is_active)
        return all(self.applied.get(other, 0) >= needed for other in others)

    def check(self, image: ClusterImage) -> None:
        assert self.watched <= set(image.brokers)
        assert set(self._shutdown_offsets) <= set(image.brokers)
