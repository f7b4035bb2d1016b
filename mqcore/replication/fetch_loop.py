"""Shell: copies partitions from their leaders: for each leader one connection, and one Fetch in flight for all
partitions that it leads.

`FollowerState` decides what to ask and what to do with the answer. Own rules:
* A partition that syncs each append (`flush.messages=1`) delays the next request until its sync has ended, because a
  request without it could wait at the leader for half a second.
* A fault of one partition pauses that partition, or takes it offline, and never stops the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from mqcore.config import BrokerConfig
from mqcore.host import Clock, Network, Timer
from mqcore.identity import BrokerId, Millis, TopicIdPartition
from mqcore.links.link import Link, OnResponse
from mqcore.links.outcome import LinkFault
from mqcore.partitions.follower import Back, FollowerState, StartAt, Truncate
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.wire.fetch import FETCH, FetchedPartition, FetchPartition, FetchTopic
from mqcore.wire.frames import BadFrame
from mqcore.wire.replica_fetch import VERSION, FetchLimits, decode_fetch_response, encode_replica_fetch

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
    def __init__(self, leader: BrokerId, link: Sender, clock: Clock, rules: FetchRules) -> None:
        self.leader = leader
        self.partitions: dict[TopicIdPartition, Partition] = {}
        self._link = link
        self._clock = clock
        self._rules = rules
        self._is_asking = False
        self._is_closed = False
        self._timer: Timer | None = None

    def add(self, key: TopicIdPartition, partition: Partition) -> None:
        self.partitions[key] = partition
        self._continue_in(0)

    def remove(self, key: TopicIdPartition) -> None:
        self.partitions.pop(key, None)

    def close(self) -> None:
        self._is_closed = True
        self.partitions.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()

    def _continue_in(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, self._continue)

    def _continue(self) -> None:
        """Send the next request, unless one is in flight or a sync is due first."""
        self._timer = None
        if self._is_asking or self._is_closed:
            return
        followed = [
            (key, partition, partition.role)
            for key, partition in self.partitions.items()
            if isinstance(partition.role, FollowerState) and partition.role.leader == self.leader
        ]
        for _, partition, _ in followed:
            if partition.acknowledges_durable_only and partition.log.flushed_offset < partition.log.end_offset:
                partition.when_durable(lambda outcome: self._continue_in(0))
                return
        now = self._clock.now().monotonic_ms
        asked = []
        for key, partition, role in followed:
            fetch = role.ask(partition.log, now)
            if fetch is not None:
                asked.append(Asked(key, partition, role, fetch))
        pauses = [at - now for _, _, role in followed if (at := role.deadline()) is not None]
        if asked:
            self._send(asked, min([self._rules.wait_ms, *(max(pause, 1) for pause in pauses)]))
        elif pauses:
            self._continue_in(max(0, min(pauses)))

    def _send(self, asked: Sequence[Asked], wait_ms: int) -> None:
        self._is_asking = True
        topics: dict[object, FetchTopic] = {}
        for (topic_id, index), _, _, fetch in asked:
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
        newest = max(asked, key=lambda each: each.fetch.broker_epoch).fetch
        limits = FetchLimits(wait_ms, self._rules.response_bytes_max)
        body = encode_replica_fetch(newest.replica, newest.broker_epoch, limits, list(topics.values()))
        self._link.send(FETCH, VERSION, body, wait_ms + ANSWER_MS_MAX, partial(self._on_response, asked))

    def _on_response(self, asked: Sequence[Asked], response: memoryview | LinkFault) -> None:
        self._is_asking = False
        now = self._clock.now()
        answers = self._answers(response)
        for each in asked:
            answer = answers.get(each.key)
            if answer is None:
                each.role.failed(each.fetch, now.monotonic_ms)
            elif each.partition.role is each.role:
                self._carry_out(each, answer, now.monotonic_ms, now.wall_ms)
        self._rotate(asked)
        self._continue()

    def _answers(self, response: memoryview | LinkFault) -> Mapping[TopicIdPartition, FetchedPartition]:
        """By partition. Empty if there is no answer, or only an error about the request as a whole."""
        if isinstance(response, LinkFault):
            return {}
        try:
            error_code, topics = decode_fetch_response(response)
        except BadFrame as bad:
            log.error("a leader's answer cannot be read", extra={"leader": self.leader, "reason": str(bad)})
            return {}
        if error_code:
            return {}
        return {TopicIdPartition(id, found.partition): found for id, partitions in topics for found in partitions}

    def _carry_out(self, asked: Asked, answer: FetchedPartition, now: Millis, wall_ms: Millis) -> None:
        name = str(asked.partition.name)
        try:
            step = asked.role.decide(asked.fetch, answer, asked.partition.log, now)
            if isinstance(step, Truncate | StartAt):
                end = asked.partition.log.end_offset
                log.info("log truncated", extra={"partition": name, "end": end, "step": str(step)})
            elif isinstance(step, Back):
                log.debug("fetch repeated", extra={"partition": name, "leader": self.leader, "reason": step.reason})
            asked.partition.carry_out(step, wall_ms)
        except OSError as fault:
            log.error("fetched batches not written", extra={"partition": name, "reason": str(fault)})
            asked.role.pause(now)
        except Exception:
            log.exception("a fetched partition could not be appended", extra={"partition": name})
            asked.role.pause(now)

    def _rotate(self, asked: Sequence[Asked]) -> None:
        """Begin the next request with another partition, because the first ones may use up a whole response."""
        first = asked[0].key
        if first in self.partitions:
            self.partitions[first] = self.partitions.pop(first)
