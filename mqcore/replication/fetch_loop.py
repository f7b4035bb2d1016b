"""Shell: copies partitions from their leaders: for each leader one connection, one fetch session and one Fetch in
flight for all partitions that it leads.

`FollowerState` decides what to ask and what to do with the answer. Own rules:
* A partition that syncs each append (`flush.messages=1`) delays the next request until its sync has ended, because a
  request without it could wait at the leader for half a second.
* A fault of one partition pauses that partition, or takes it offline, and never stops the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from mqcore.config import BrokerConfig
from mqcore.host import Clock, Instant, Network, Timer
from mqcore.identity import BrokerId, Millis, TopicIdPartition
from mqcore.links.link import Link, OnResponse
from mqcore.links.outcome import LinkFault
from mqcore.partitions.follower import Back, FollowerState, StartAt, Truncate
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.replication.fetch_session import is_final
from mqcore.wire.fetch import FETCH, FetchedPartition, FetchPartition, FetchTopic
from mqcore.wire.frames import BadFrame
from mqcore.wire.replica_fetch import (
    VERSION,
    FetchLimits,
    FetchResponse,
    Session,
    decode_fetch_response,
    encode_replica_fetch,
)

log = logging.getLogger(__name__)

ANSWER_MS_MAX: Final = 2000
"""How much longer than the maximum wait an answer may take."""


@dataclass(frozen=True, slots=True)
class FetchRules:
    wait_ms: int = 500  # replica.fetch.wait.max.ms
    partition_bytes_max: int = 1 << 20  # replica.fetch.max.bytes
    response_bytes_max: int = 10 << 20  # replica.fetch.response.max.bytes

    @classmethod
    def of(cls, config: BrokerConfig) -> FetchRules:
        return cls(
            config.replica_fetch_wait_max_ms, config.replica_fetch_max_bytes, config.replica_fetch_response_max_bytes
        )


class Sender(Protocol):
    """The connection to a leader. `Link` is the real one."""

    def send(self, key: int, version: int, body: bytes, timeout_ms: int, on_response: OnResponse) -> None: ...

    def close(self) -> None: ...


def links_to_leaders(
    me: BrokerId, clock: Clock, network: Network, address: Callable[[BrokerId], tuple[str, int] | None]
) -> Callable[[BrokerId], Sender]:
    """`address` returns where a broker listens for other brokers, or None if that is not known."""
    return lambda leader: Link(clock, network, partial(address, leader), f"broker-{me}-fetcher")


class FetchLoops:
    def __init__(self, link_to: Callable[[BrokerId], Sender], clock: Clock, rules: FetchRules) -> None:
        self._link_to = link_to
        self._clock = clock
        self._rules = rules
        self._loops: dict[BrokerId, FetchLoop] = {}
        self._loop_of: dict[TopicIdPartition, FetchLoop] = {}

    def follow(self, partition: Partition) -> None:
        """Copy the partition from the leader that its role names, instead of from another one before. A partition
        that does not follow, for example because it is offline, is dropped."""
        role = partition.role
        key = TopicIdPartition(partition.topic_id, partition.index)
        loop = self._loop_of.get(key)
        if not isinstance(role, FollowerState) or (loop is not None and loop.leader != role.leader):
            self.drop(partition)
        if not isinstance(role, FollowerState):
            return
        loop = self._loops.get(role.leader)
        if loop is None:
            loop = FetchLoop(role.leader, self._link_to(role.leader), self._clock, self._rules)
            self._loops[role.leader] = loop
        self._loop_of[key] = loop
        loop.add(key, partition)

    def drop(self, partition: Partition) -> None:
        """Copy the partition no longer. A connection without partitions is closed."""
        key = TopicIdPartition(partition.topic_id, partition.index)
        loop = self._loop_of.pop(key, None)
        if loop is not None:
            loop.remove(key)
            if not loop.partitions:
                del self._loops[loop.leader]
                loop.close()

    def close(self) -> None:
        for loop in self._loops.values():
            loop.close()
        self._loops.clear()
        self._loop_of.clear()


class Asked(NamedTuple):
    """What was asked for one partition, and the role that asked."""

    key: TopicIdPartition
    partition: Partition
    role: FollowerState
    fetch: ReplicaFetch


class FetchLoop:
    """A request names only what is due; the leader remembers the rest (`mqcore/replication/fetch_session.py`)."""

    def __init__(self, leader: BrokerId, link: Sender, clock: Clock, rules: FetchRules) -> None:
        self.leader = leader
        self.partitions: dict[TopicIdPartition, Partition] = {}
        self._due: dict[TopicIdPartition, None] = {}  # to be asked for, or pausing after an error
        self._open: dict[TopicIdPartition, Asked] = {}  # asked for and not answered
        self._forgotten: dict[TopicIdPartition, None] = {}  # open at the leader, and not followed any more
        self._session = Session()
        self._link = link
        self._clock = clock
        self._rules = rules
        self._is_asking = False
        self._is_closed = False
        self._timer: Timer | None = None

    def add(self, key: TopicIdPartition, partition: Partition) -> None:
        self.partitions[key] = partition
        self._due[key] = None
        self._continue_in(0)

    def remove(self, key: TopicIdPartition) -> None:
        self.partitions.pop(key, None)
        self._due.pop(key, None)
        asked = self._open.pop(key, None)
        if asked is not None:
            asked.role.failed(asked.fetch, self._clock.now().monotonic_ms)
            self._forgotten[key] = None

    def close(self) -> None:
        self._is_closed = True
        self.partitions.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()

    # ── the next request ─────────────────────────────────────────────────────────────────────────

    def _continue_in(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._continue)

    def _continue(self) -> None:
        """Send the next request, unless one is in flight or a sync is due first."""
        self._timer = None
        if self._is_asking or self._is_closed:
            return
        due = [(key, partition, role) for key in self._due if (role := self._role(partition := self.partitions[key]))]
        for _, partition, _ in due:
            if partition.acknowledges_durable_only and partition.log.flushed_offset < partition.log.end_offset:
                partition.when_durable(lambda outcome: self._continue_in(0))
                return
        now = self._clock.now().monotonic_ms
        asked, self._due = [], {}
        pauses: list[int] = []
        for key, partition, role in due:
            fetch = role.ask(partition.log, now)
            if fetch is not None:
                asked.append(Asked(key, partition, role, fetch))
            elif (at := role.deadline()) is not None:
                self._due[key] = None
                pauses.append(at - now)
        if asked or self._open:
            self._send(asked, min([self._rules.wait_ms, *(max(pause, 1) for pause in pauses)]))
        elif pauses:
            self._continue_in(max(0, min(pauses)))

    def _role(self, partition: Partition) -> FollowerState | None:
        role = partition.role
        return role if isinstance(role, FollowerState) and role.leader == self.leader else None

    def _send(self, asked: Sequence[Asked], wait_ms: int) -> None:
        self._is_asking = True
        topics: dict[UUID, FetchTopic] = {}
        for each in asked:
            (topic_id, index), fetch = each.key, each.fetch
            topic = topics.setdefault(topic_id, FetchTopic(None, topic_id, []))
            topic.partitions.append(
                FetchPartition(
                    index,
                    fetch.leader_epoch,
                    fetch.offset,
                    fetch.last_fetched_epoch,
                    fetch.log_start,
                    self._rules.partition_bytes_max,
                )
            )
            self._open[each.key] = each
            self._forgotten.pop(each.key, None)
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, index in self._forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        self._forgotten = {}
        newest = max(self._open.values(), key=lambda each: each.fetch.broker_epoch).fetch
        limits = FetchLimits(wait_ms, self._rules.response_bytes_max)
        body = encode_replica_fetch(
            newest.replica, newest.broker_epoch, limits, self._session, list(topics.values()), forgotten
        )
        self._link.send(FETCH, VERSION, body, wait_ms + ANSWER_MS_MAX, self._on_response)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def _on_response(self, response: memoryview | LinkFault) -> None:
        self._is_asking = False
        now = self._clock.now()
        decoded = self._decode(response)
        if decoded is None:
            self._start_over(now.monotonic_ms)
        else:
            self._session = Session(decoded.session_id, self._session.epoch + 1)
            for topic_id, answers in decoded.topics:
                for answer in answers:
                    self._take(TopicIdPartition(topic_id, answer.partition), answer, now)
            if not decoded.session_id:  # the leader remembers nothing
                self._start_over(now.monotonic_ms)
        self._continue()

    def _decode(self, response: memoryview | LinkFault) -> FetchResponse | None:
        """None if there is no answer, or only an error about the request as a whole."""
        if isinstance(response, LinkFault):
            return None
        try:
            decoded = decode_fetch_response(response)
        except BadFrame as bad:
            log.error("a leader's answer cannot be read", extra={"leader": self.leader, "reason": str(bad)})
            return None
        return None if decoded.error_code else decoded

    def _start_over(self, now: Millis) -> None:
        """Open another session after a pause, and ask for everything again."""
        for each in self._open.values():
            each.role.failed(each.fetch, now)
            self._due[each.key] = None
        self._open = {}
        self._forgotten = {}
        self._session = Session()

    def _take(self, key: TopicIdPartition, answer: FetchedPartition, now: Instant) -> None:
        asked = self._open.get(key)
        if asked is None:
            return
        if asked.partition.role is not asked.role:
            del self._open[key]
            return
        if is_final(answer, asked.fetch.log_start):
            del self._open[key]
            self._due[key] = None
        self._carry_out(asked, answer, now, is_final=key not in self._open)

    def _carry_out(self, asked: Asked, answer: FetchedPartition, now: Instant, *, is_final: bool) -> None:
        name = str(asked.partition.name)
        log_ = asked.partition.log
        try:
            if is_final:
                step = asked.role.decide(asked.fetch, answer, log_, now.monotonic_ms)
            else:
                step = asked.role.learn(answer, log_, now.monotonic_ms)
            if isinstance(step, Truncate | StartAt):
                log.info("log truncated", extra={"partition": name, "end": log_.end_offset, "step": str(step)})
            elif isinstance(step, Back):
                log.debug("fetch repeated", extra={"partition": name, "leader": self.leader, "reason": step.reason})
            asked.partition.carry_out(step, now.wall_ms)
        except OSError as fault:
            log.error("fetched batches not written", extra={"partition": name, "reason": str(fault)})
            asked.role.pause(now.monotonic_ms)
        except Exception:
            log.exception("a fetched partition could not be appended", extra={"partition": name})
            asked.role.pause(now.monotonic_ms)
