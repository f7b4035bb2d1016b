"""Fetch: slices of logs, at once or as soon as there is enough to send.

Fetch sessions are declined (session id 0), which every client accepts: each request names all its partitions.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later
from mqcore.apis.lookup import find_partition
from mqcore.partitions.partition import Fetched, Partition
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch,
    encode_fetch_response,
)
from mqcore.wire.hot import Piece, size_of

API = Api(1, "Fetch", 4, 18)

decode = decode_fetch

MANY = 64  # partitions of one fetch; more are read after a pause, not after every append
PAUSE_MS = 0.02  # for each of them, a few times what reading it takes

WAITING_PARTITIONS_MAX = 100_000
"""Of all fetches that wait, some 400 bytes each. A fetch of more than `MANY` partitions does not wait above it."""

Topics = list[tuple[str | None, UUID | None, list[FetchedPartition]]]
Answer = tuple[ErrorCode, Topics]


def encode(version: int, answer: Answer) -> list[Piece]:
    error, topics = answer
    return encode_fetch_response(version, topics, error_code=error)


def handle(request: FetchRequest, call: Call) -> Answer | Later:
    if request.session_epoch > 0:  # 0 asks for a session and −1 for none: both name all they want, whatever the id
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > MANY:
        request = request._replace(topics=_once(request.topics))
    reading = _Reading(request, call)
    if reading.collect() or request.max_wait_ms <= 0 or not reading.may_wait():
        return ErrorCode.NONE, reading.topics
    reading.park()
    return LATER


class _Reading:
    """One fetch: what it would get now, and the wait if that is too little."""

    def __init__(self, request: FetchRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self._most = min(request.max_bytes, call.services.config.fetch_max_bytes)
        self._enough = min(request.min_bytes, self._most)
        self._waiting = False
        self.topics: Topics = []
        self.partitions: list[tuple[Partition, FetchPartition]] = []
        self._sizes: dict[Partition, int] = {}  # what there is to read in each
        self._moved: dict[Partition, FetchPartition] = {}  # partitions that have more since the last look

    def collect(self) -> bool:
        """Read; True if the answer should not wait (enough, or something is wrong)."""
        request, services = self._request, self._call.services
        left = most = self._most
        committed_only = request.isolation_level == READ_COMMITTED
        self.topics, self.partitions, self._sizes = [], [], {}
        at_once = False
        for name, topic_id, wanted in request.topics:
            results = []
            for want in wanted:
                found = find_partition(services, name, topic_id, want.partition)
                result = self._read(found, want, left, left == most, committed_only)
                if result.error_code or result.diverging_epoch is not None:
                    at_once = True
                else:
                    assert isinstance(found, Partition)
                    self.partitions.append((found, want))
                    size = size_of((result.records,))
                    left -= size
                    if size:
                        self._sizes[found] = size
                    if size and want.fetch_offset < found.log.segments.active.base_offset:
                        at_once = True  # it read to the end of a sealed segment: no wait makes that more
                results.append(result)
            self.topics.append((name, topic_id, results))
        return at_once or most - left >= self._enough

    def _read(
        self, found: Partition | ErrorCode, want: FetchPartition, left: int, first: bool, committed_only: bool
    ) -> FetchedPartition:
        index = want.partition
        if isinstance(found, ErrorCode):
            return FetchedPartition(index, found)
        if self._request.replica_id >= 0:
            return FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # there are no followers here
        if want.current_leader_epoch >= 0:
            refusal = found.check_epoch(want.current_leader_epoch)
            if refusal is not None:
                leader = (self._call.services.config.node_id, found.leader_epoch)
                return FetchedPartition(index, refusal.error, current_leader=leader)
        if want.last_fetched_epoch >= 0:
            epoch, end = found.log.epochs.end_offset_for(want.last_fetched_epoch)
            if epoch < want.last_fetched_epoch or end < want.fetch_offset:
                return FetchedPartition(index, diverging_epoch=(epoch, end))
        fetched = found.fetch(
            want.fetch_offset, min(want.max_bytes, left), at_least_one=first, committed_only=committed_only
        )
        if not isinstance(fetched, Fetched):
            return FetchedPartition(index, fetched.error)
        return FetchedPartition(
            index,
            0,
            fetched.high_watermark,
            fetched.last_stable_offset,
            fetched.log_start_offset,
            fetched.records or b"",
            [] if committed_only else None,
        )

    def may_wait(self) -> bool:
        count = len(self.partitions)
        if count > MANY and self._call.services.waiting_partitions + count > WAITING_PARTITIONS_MAX:
            return False
        return count > 0

    def park(self) -> None:
        self._waiting = True
        services = self._call.services
        services.waiting_partitions += len(self.partitions)
        self._timer = services.clock.call_later(self._request.max_wait_ms, self._answer)
        self._again = False
        self._call.when_gone = self._leave
        self._names_one_twice = len({partition for partition, _ in self.partitions}) < len(self.partitions)
        self.topics = []
        for partition, want in self.partitions:
            partition.watchers.add(self, partial(self._told, partition, want))

    def _told(self, partition: Partition, want: FetchPartition) -> None:
        """Something moved. Many partitions may move in one turn of the loop: look once, after it."""
        self._moved[partition] = want
        if self._again:
            return
        self._again = True
        if len(self.partitions) <= MANY:
            self._call.services.clock.call_soon(self._look)
        else:
            self._call.services.clock.call_later(len(self.partitions) * PAUSE_MS, self._look)

    def _look(self) -> None:
        self._again = False
        if not self._waiting:
            return
        stopping = self._call.services.stopping
        if stopping or self._may_be_enough():
            watched = self.partitions
            if self.collect() or stopping:
                self.partitions = watched  # those that it has to leave
                self._finish()
            else:
                self.partitions, self.topics = watched, []

    def _may_be_enough(self) -> bool:
        """Reads only the partitions that moved, because a fetch that waits for much may name many."""
        moved, self._moved = self._moved, {}
        if self._names_one_twice:
            return True
        committed_only = self._request.isolation_level == READ_COMMITTED
        for partition, want in moved.items():
            result = self._read(partition, want, self._most, True, committed_only)
            size = size_of((result.records,))
            if result.error_code or result.diverging_epoch is not None:
                return True
            if size and want.fetch_offset < partition.log.segments.active.base_offset:
                return True
            self._sizes[partition] = size
        return sum(self._sizes.values()) >= self._enough

    def _answer(self) -> None:
        if self._waiting:
            watched = self.partitions
            self.collect()
            self.partitions = watched
            self._finish()

    def _finish(self) -> None:
        self._leave()
        self._call.answer((ErrorCode.NONE, self.topics))

    def _leave(self) -> None:
        self._waiting = False
        self._timer.cancel()
        self._call.services.waiting_partitions -= len(self.partitions)
        for partition, _ in self.partitions:
            partition.watchers.remove(self)


def _once(topics: list[FetchTopic]) -> list[FetchTopic]:
    """A stranger may name one partition a thousand times; it is read once, as by Kafka."""
    seen: set[tuple[str | UUID | None, int]] = set()
    kept: list[FetchTopic] = []
    for topic in topics:
        partitions = []
        for wanted in topic.partitions:
            key = (topic.name or topic.topic_id, wanted.partition)
            if key not in seen:
                seen.add(key)
                partitions.append(wanted)
        kept.append(topic._replace(partitions=partitions))
    return kept
