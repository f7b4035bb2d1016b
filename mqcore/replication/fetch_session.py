"""Shell: what one follower has asked this leader for and has not been answered yet (fetch sessions, KIP-227).

A request names only the partitions that the follower asks for now. Each stays open until an answer has records, an
error or another log start for it. So requests and answers cost as much as has changed, not as much as is followed.

Own rules:
* Every partition that is named passes all fences before anything is read.
* A request repeats everything that is open. The leader is told so when it matters: before a follower that had
  everything begins to lag, and while it is outside the ISR.
* An answer waits for an append, the end of a term or the maximum wait, but not for the high watermark alone, because
  that would double the number of requests. Followers learn the high watermark with the next answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from mqcore.host import Clock, Timer
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset, TopicIdPartition
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.partition import Partition
from mqcore.partitions.reading import read_below
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadResult, ReplicaFetch
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fast_primitives import size_of
from mqcore.wire.fetch import FetchedPartition, FetchPartition, FetchRequest

FetchedTopics = list[tuple[str | None, UUID | None, list[FetchedPartition]]]


class ReplicaAnswer(NamedTuple):
    """The response to a follower's request. `error` is about the request as a whole."""

    topics: FetchedTopics
    session_id: int = 0
    error: ErrorCode = ErrorCode.NONE


OnAnswer = Callable[[ReplicaAnswer], None]


class OpenFetch:
    """One partition that a follower has asked for. It is registered with the watchers of the partition."""

    __slots__ = ("fetch", "key", "partition", "session", "want")

    def __init__(
        self, session: FetchSession, key: TopicIdPartition, partition: Partition, want: FetchPartition,
        fetch: ReplicaFetch,
    ) -> None:  # fmt: skip
        self.session = session
        self.key = key
        self.partition = partition
        self.want = want
        self.fetch = fetch
        partition.append_watchers.add(self, self._on_change)
        partition.watchers.add(self, self._on_high_watermark)

    def close(self) -> None:
        self.partition.append_watchers.remove(self)
        self.partition.watchers.remove(self)

    def _on_change(self) -> None:
        self.session.on_change(self)

    def _on_high_watermark(self) -> None:
        self.session.on_high_watermark(self)


class FetchSession:
    def __init__(
        self, id: int, request: FetchRequest, partitions: HostedPartitions, clock: Clock, response_bytes_max: int
    ) -> None:
        self.id = id
        self.epoch = 0  # of the next request
        self.replica = BrokerId(request.replica_id)
        self.broker_epoch = request.replica_epoch
        self._partitions = partitions
        self._clock = clock
        self._response_bytes_max = response_bytes_max
        self._open: dict[TopicIdPartition, OpenFetch] = {}
        self._changed: dict[TopicIdPartition, None] = {}  # open ones to read, in the order of their changes
        self._outside: dict[TopicIdPartition, None] = {}  # open ones in whose ISR the follower is not
        self._told: dict[TopicIdPartition, Offset] = {}  # the high watermark of the last answer
        self._untold: dict[TopicIdPartition, None] = {}  # open ones whose high watermark is another by now
        self._refused: list[tuple[UUID | None, FetchedPartition]] = []
        self._requested_at: Millis = clock.now().monotonic_ms
        self._bytes_max = 0
        self._on_answer: OnAnswer | None = None  # of the request that waits
        self._timer: Timer | None = None
        self._wake_up: Timer | None = None

    @property
    def is_waiting(self) -> bool:
        return self._on_answer is not None

    # ── a request ────────────────────────────────────────────────────────────────────────────────

    def serve(self, request: FetchRequest, on_answer: OnAnswer) -> None:
        """Call `on_answer` once: now, or later, unless the session is closed before."""
        self.answer()  # a client that does not wait for its answer gets it now
        self.epoch += 1
        self._requested_at = self._clock.now().monotonic_ms
        self._bytes_max = min(request.max_bytes, self._response_bytes_max)
        self._on_answer = on_answer
        for topic in request.forgotten:
            for index in topic.partitions:
                if topic.topic_id is not None:
                    self._close(TopicIdPartition(topic.topic_id, index))
        for key in list(self._outside):
            self._repeat(self._open[key])
        for _, topic_id, wanted in request.topics:
            for want in wanted:
                self._ask(topic_id, want)
        if self._refused or self._changed or request.max_wait_ms <= 0:
            self.answer()
        else:
            self._timer = self._clock.call_later(request.max_wait_ms, self.answer)

    def _ask(self, topic_id: UUID | None, want: FetchPartition) -> None:
        index = want.partition
        partition = None if topic_id is None else self._partitions.by_id(topic_id, index)
        if topic_id is None or partition is None:
            self._refused.append((topic_id, FetchedPartition(index, ErrorCode.UNKNOWN_TOPIC_ID)))
            return
        key = TopicIdPartition(topic_id, index)
        self._close(key)
        fetch = ReplicaFetch(
            self.replica,
            self.broker_epoch,
            LeaderEpoch(want.current_leader_epoch),
            Offset(want.fetch_offset),
            want.last_fetched_epoch,
            Offset(want.log_start_offset),
        )
        refused = self._fence(partition, fetch, index)
        if refused is not None:
            self._refused.append((topic_id, refused))
            return
        self._open[key] = OpenFetch(self, key, partition, want, fetch)
        if partition.log.end_offset > want.fetch_offset:
            self._changed[key] = None
        if partition.high_watermark != self._told.get(key):
            self._untold[key] = None
        self._note_membership(key, partition)

    def _fence(self, partition: Partition, fetch: ReplicaFetch, index: int) -> FetchedPartition | None:
        """Tell the leader of the partition what the follower has. The answer if it may not copy."""
        match partition.fetched(fetch, self._requested_at):
            case None:
                return None
            case LeaderEpochMismatch(error, leader_epoch):
                leader = (partition.term.leader, leader_epoch) if partition.term is not None else None
                return FetchedPartition(index, error, current_leader=leader)
            case Divergence() as divergence:
                return FetchedPartition(index, diverging_epoch=divergence)
            case Refusal(error):
                return FetchedPartition(index, error, log_start_offset=partition.log_start_offset)

    def _repeat(self, open: OpenFetch) -> None:
        """The follower is outside the ISR. It may have become eligible since its last request."""
        refused = self._fence(open.partition, open.fetch, open.key.partition)
        if refused is not None:
            self._close(open.key)
            self._refused.append((open.key.topic_id, refused))
        else:
            self._note_membership(open.key, open.partition)

    def _note_membership(self, key: TopicIdPartition, partition: Partition) -> None:
        role = partition.role
        if isinstance(role, LeaderState) and self.replica not in role.isr.committed:
            self._outside[key] = None
        else:
            self._outside.pop(key, None)

    def _close(self, key: TopicIdPartition) -> None:
        open = self._open.pop(key, None)
        if open is not None:
            open.close()
            for keys in (self._changed, self._untold, self._outside):
                keys.pop(key, None)

    # ── what happens to open partitions ──────────────────────────────────────────────────────────

    def on_change(self, open: OpenFetch) -> None:
        """The log has grown, has another start, or the term has changed. Answer after this turn of the loop, so that
        one answer has all its appends."""
        if open.key not in self._changed:
            role = open.partition.role
            if isinstance(role, LeaderState):
                role.still_had_everything(self.replica, self._requested_at)
            self._changed[open.key] = None
        if self._on_answer is not None and self._wake_up is None:
            self._wake_up = self._clock.call_soon(self.answer)

    def on_high_watermark(self, open: OpenFetch) -> None:
        self._untold[open.key] = None

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def answer(self) -> None:
        """Answer the request that waits, if one does, with what there is."""
        on_answer, self._on_answer = self._on_answer, None
        self._cancel_timers()
        if on_answer is not None:
            on_answer(ReplicaAnswer(self._take_answers(), self.id))

    def close(self) -> None:
        """Forget everything; no answer will be sent."""
        self._on_answer = None
        self._cancel_timers()
        for key in list(self._open):
            self._close(key)

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._wake_up):
            if timer is not None:
                timer.cancel()
        self._timer = self._wake_up = None

    def _take_answers(self) -> FetchedTopics:
        answers, self._refused = self._refused, []
        left = self._bytes_max
        for key in list(self._changed):
            if left <= 0:
                break
            open = self._open[key]
            found = _read_to_end(open, left, at_least_one=left == self._bytes_max)
            if found is None:
                continue
            left -= size_of((found.records,))
            del self._changed[key]
            if is_final(found, open.want.log_start_offset):
                self._tell(open, found)
                self._close(key)
                answers.append((key.topic_id, found))
            else:
                self._note_membership(key, open.partition)  # it may be another term's ISR that has woken us
        for key in list(self._untold):
            open = self._open[key]
            if open.partition.high_watermark != self._told.get(key) and open.partition.leads:
                found = _offsets(open.partition, key.partition)
                self._tell(open, found)
                answers.append((key.topic_id, found))
        self._untold.clear()
        return _by_topic(answers)

    def _tell(self, open: OpenFetch, found: FetchedPartition) -> None:
        if not found.error_code:
            self._told[open.key] = Offset(found.high_watermark)
        self._untold.pop(open.key, None)


def is_final(answer: FetchedPartition, log_start: int) -> bool:
    """Whether the follower, which has told this log start, has to ask again. Both sides apply this rule."""
    has_records = size_of((answer.records,)) > 0
    is_refused = bool(answer.error_code) or answer.diverging_epoch is not None
    return has_records or is_refused or answer.log_start_offset != log_start


def _read_to_end(open: OpenFetch, bytes_left: int, *, at_least_one: bool) -> FetchedPartition | None:
    """None if there are records, but the answer has no room for them."""
    partition, want, index = open.partition, open.want, open.key.partition
    if partition.is_offline:
        return FetchedPartition(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if not partition.leads or partition.leader_epoch != want.current_leader_epoch:  # the term ended during the wait
        return FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    end = partition.log.end_offset
    if want.fetch_offset >= end:
        return _offsets(partition, index)
    bytes_max = min(want.max_bytes, bytes_left)
    outcome = read_below(partition, want.fetch_offset, bytes_max, end, at_least_one=at_least_one)
    if not isinstance(outcome, ReadResult):
        return FetchedPartition(index, outcome.error)
    high_watermark, stable, log_start, records, _ = outcome
    if records is None:
        return None
    return FetchedPartition(index, 0, high_watermark, stable, log_start, records)


def _offsets(partition: Partition, index: int) -> FetchedPartition:
    high_watermark, stable = partition.high_watermark, partition.last_stable_offset
    return FetchedPartition(index, 0, high_watermark, stable, partition.log.start_offset)


def _by_topic(answers: Sequence[tuple[UUID | None, FetchedPartition]]) -> FetchedTopics:
    topics: dict[UUID | None, list[FetchedPartition]] = {}
    for topic_id, answer in answers:
        topics.setdefault(topic_id, []).append(answer)
    return [(None, topic_id, found) for topic_id, found in topics.items()]
