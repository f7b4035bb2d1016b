"""Fetch: slices of logs, sent at once or as soon as there is enough to send.

Versions: 4 is the first with batches in the current format. 7 adds fetch sessions, 9 the leader epoch, 12 the check for
a diverging log (KIP-595), 13 topic ids; 15 moves the replica id to a tag.
From 11 on a consumer may read from a follower, and with `replica.selector.class` the leader sends it to one in its own
rack (KIP-392). The fetches of followers themselves are served by mqcore/replication/serving.py.
Left out: fetch sessions of clients (the session id is always 0, so each request names all its partitions; every client
accepts that).
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from mqcore.apis.call import LATER, Api, Call, Later
from mqcore.apis.lookup import find_partition
from mqcore.host import Timer
from mqcore.identity import BrokerId
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadRequest, ReadResult
from mqcore.replication.fetch_session import ReplicaAnswer
from mqcore.replication.nearest import nearest_replica
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fast_primitives import Piece, size_of
from mqcore.wire.fetch import (
    NO_REPLICA,
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    decode_fetch,
    encode_fetch_response,
)

API = Api(1, "Fetch", 4, 18)

FOLLOWERS_ARE_READABLE = 11

decode = decode_fetch

PROMPT_PARTITIONS_MAX = 64
"""A waiting fetch of at most this many partitions is retried right after an append, a larger one after a pause."""

PAUSE_PER_PARTITION_MS = 0.02
"""Reading a partition takes a few microseconds, so the pause keeps large fetches from using most of the CPU."""

WAITING_PARTITIONS_MAX = 100_000
"""Partitions of all waiting fetches, about 400 bytes each. Above it, a fetch of more than `PROMPT_PARTITIONS_MAX`
partitions is answered at once."""

FetchedTopics = list[tuple[str | None, UUID | None, list[FetchedPartition]]]
FetchAnswer = tuple[ErrorCode, FetchedTopics] | ReplicaAnswer


def encode(version: int, answer: FetchAnswer) -> list[Piece]:
    if isinstance(answer, ReplicaAnswer):
        topics, session_id, error = answer
        return encode_fetch_response(version, topics, error_code=error, session_id=session_id)
    error, topics = answer
    return encode_fetch_response(version, topics, error_code=error)


def handle(request: FetchRequest, call: Call) -> FetchAnswer | Later:
    followers = call.services.replica_fetches
    if request.replica_id >= 0 and followers is not None and call.listener == followers.listener:
        return _serve_follower(request, call, followers)  # on others no client may pass for a follower: CVE-2018-1288
    if request.session_epoch > 0:  # 0 opens a session and −1 needs none; both name every partition they want
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > PROMPT_PARTITIONS_MAX:
        request = request._replace(topics=_without_duplicates(request.topics))
    fetch = WaitingFetch(request, call)
    if fetch.read_all() or request.max_wait_ms <= 0 or not fetch.may_wait():
        return ErrorCode.NONE, fetch.topics
    fetch.wait()
    return LATER


def _serve_follower(request: FetchRequest, call: Call, followers: ReplicaFetches) -> Later:
    session = followers.serve(request, call.answer)
    if session is not None:
        call.when_gone = partial(followers.drop, session)
    return LATER


class WaitingFetch:
    """One fetch request: what it can read now, and the wait for more.

    While it waits it is registered with the watchers of its partitions. `unregister` ends the wait exactly once: when
    the fetch is answered, or when the client disconnects.
    """

    def __init__(self, request: FetchRequest, call: Call) -> None:
        self._request = request
        self._call = call
        self._bytes_max = min(request.max_bytes, call.services.config.fetch_max_bytes)
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._rack = request.rack_id if call.services.config.replica_selector_class else ""
        self.topics: FetchedTopics = []
        self.partitions: list[tuple[Partition, FetchPartition]] = []  # that were read without an error
        self._readable_bytes: dict[Partition, int] = {}
        self._appended: dict[Partition, FetchPartition] = {}  # partitions that have changed since the last retry
        self._is_waiting = False
        self._retry_scheduled = False
        self._has_duplicates = False
        self._timer: Timer | None = None

    def read_all(self) -> bool:
        """Read every partition. True if the answer should go out now: enough bytes, or a partition has an error."""
        left = self._bytes_max
        self.topics, self.partitions, self._readable_bytes = [], [], {}
        answer_now = False
        for name, topic_id, wanted in self._request.topics:
            results = []
            for want in wanted:
                found = find_partition(self._call.services, name, topic_id, want.partition)
                result, is_final = self._read(found, want, left, at_least_one=left == self._bytes_max)
                results.append(result)
                answer_now = answer_now or is_final
                if not isinstance(found, Partition) or _has_error(result):
                    continue
                self.partitions.append((found, want))
                size = size_of((result.records,))
                left -= size
                if size:
                    self._readable_bytes[found] = size
            self.topics.append((name, topic_id, results))
        return answer_now or self._bytes_max - left >= self._bytes_min

    def _read(
        self, found: Partition | ErrorCode, want: FetchPartition, left: int, *, at_least_one: bool
    ) -> tuple[FetchedPartition, bool]:
        """The partition's part of the answer, and whether it is final: an error, or data that no wait can add to."""
        index = want.partition
        if isinstance(found, ErrorCode):
            return FetchedPartition(index, found), True
        if self._request.replica_id >= 0 or (not found.leads and self._call.version < FOLLOWERS_ARE_READABLE):
            error = ErrorCode.KAFKA_STORAGE_ERROR if found.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
            return FetchedPartition(index, error), True
        outcome = found.read(
            ReadRequest(
                want.fetch_offset,
                min(want.max_bytes, left),
                at_least_one,
                self._committed_only,
                want.current_leader_epoch,
                want.last_fetched_epoch,
            )
        )
        match outcome:
            case ReadResult(high_watermark, last_stable_offset, log_start_offset, records, ends_in_sealed_segment):
                aborted: list[tuple[int, int]] | None = [] if self._committed_only else None
                offsets = high_watermark, last_stable_offset, log_start_offset
                preferred = self._preferred_replica(found, want.fetch_offset) if self._rack else NO_REPLICA
                if preferred != NO_REPLICA:
                    return FetchedPartition(index, 0, *offsets, b"", aborted, preferred), True
                return FetchedPartition(index, 0, *offsets, records or b"", aborted), ends_in_sealed_segment
            case LeaderEpochMismatch(error, leader_epoch):
                leader = (found.term.leader if found.term is not None else NO_REPLICA, leader_epoch)
                return FetchedPartition(index, error, current_leader=leader), True
            case Divergence():
                return FetchedPartition(index, diverging_epoch=outcome), True
            case _:
                return FetchedPartition(index, outcome.error), True

    def _preferred_replica(self, partition: Partition, offset: int) -> int:
        """The follower that the consumer should read from; −1 if it should stay here."""
        services = self._call.services
        if not isinstance(partition.role, LeaderState):
            return NO_REPLICA
        me = BrokerId(services.config.node_id)
        racks = {broker: known.rack for broker, known in services.image.brokers.items() if not known.fenced}
        nearest = nearest_replica(partition.role, me, offset, self._rack, racks)
        return NO_REPLICA if nearest == me else nearest

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def may_wait(self) -> bool:
        count = len(self.partitions)
        if count > PROMPT_PARTITIONS_MAX:
            return self._call.services.waiting_partitions + count <= WAITING_PARTITIONS_MAX
        return count > 0

    def wait(self) -> None:
        services = self._call.services
        services.waiting_partitions += len(self.partitions)
        self._is_waiting = True
        self._timer = services.clock.call_later(self._request.max_wait_ms, self.on_timeout)
        self._call.when_gone = self.unregister
        self._has_duplicates = len({partition for partition, _ in self.partitions}) < len(self.partitions)
        self.topics = []
        for partition, want in self.partitions:
            partition.watchers.add(self, partial(self.on_append, partition, want))

    def on_append(self, partition: Partition, want: FetchPartition) -> None:
        """Schedule one retry, because many partitions may change in the same turn of the loop."""
        self._appended[partition] = want
        if self._retry_scheduled:
            return
        self._retry_scheduled = True
        clock = self._call.services.clock
        if len(self.partitions) <= PROMPT_PARTITIONS_MAX:
            clock.call_soon(self.retry)
        else:
            clock.call_later(len(self.partitions) * PAUSE_PER_PARTITION_MS, self.retry)

    def retry(self) -> None:
        self._retry_scheduled = False
        if not self._is_waiting:
            return
        is_stopping = self._call.services.is_stopping
        if not is_stopping and not self._may_have_enough():
            return
        watched = self.partitions
        answer_now = self.read_all() or is_stopping
        self.partitions = watched  # `read_all` drops partitions with an error, but they are still registered
        if answer_now:
            self._finish()
        else:
            self.topics = []

    def on_timeout(self) -> None:
        if self._is_waiting:
            watched = self.partitions
            self.read_all()
            self.partitions = watched
            self._finish()

    def unregister(self) -> None:
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
        self._call.services.waiting_partitions -= len(self.partitions)
        for partition, _ in self.partitions:
            partition.watchers.remove(self)

    def _may_have_enough(self) -> bool:
        """Read only the partitions that have changed, because a fetch that waits for much data may name many."""
        appended, self._appended = self._appended, {}
        if self._has_duplicates:
            return True
        for partition, want in appended.items():
            result, is_final = self._read(partition, want, self._bytes_max, at_least_one=True)
            if is_final:
                return True
            self._readable_bytes[partition] = size_of((result.records,))
        return sum(self._readable_bytes.values()) >= self._bytes_min

    def _finish(self) -> None:
        self.unregister()
        self._call.answer((ErrorCode.NONE, self.topics))


def _has_error(result: FetchedPartition) -> bool:
    return bool(result.error_code) or result.diverging_epoch is not None


def _without_duplicates(topics: list[FetchTopic]) -> list[FetchTopic]:
    """A request may name one partition a thousand times; like Kafka, read it once."""
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
