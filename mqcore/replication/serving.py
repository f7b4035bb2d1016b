"""Shell: serves the fetches of followers: pass the leader's fences, read to the end of the log, or wait for an append.

A waiting fetch is answered after each append, after the client's maximum wait, and when a term ends. It is not answered
when only the high watermark has moved, because that would double the number of fetches: followers learn it with the
next answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from mqcore.host import Clock, Timer
from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.reading import read_below
from mqcore.partitions.reads import Divergence, LeaderEpochMismatch, ReadResult, ReplicaFetch
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fast_primitives import size_of
from mqcore.wire.fetch import FetchedPartition, FetchPartition, FetchRequest

NEW_LEADER_ANSWERS_MS: Final = (10, 100)
"""After a new term has begun here. The second one is for followers that are slow to hear of it."""

FetchedTopics = list[tuple[str | None, UUID | None, list[FetchedPartition]]]
OnAnswer = Callable[[FetchedTopics], None]


class ReplicaFetches:
    """`listener` is the only one on which a client may fetch as a follower."""

    def __init__(self, partitions: HostedPartitions, clock: Clock, listener: str, response_bytes_max: int) -> None:
        self.partitions = partitions
        self.clock = clock
        self.listener = listener
        self.response_bytes_max = response_bytes_max
        self.waiting: dict[WaitingFollower, None] = {}  # in the order of their arrival
        self._is_leading_more = False

    def begin_to_lead(self) -> None:
        """This broker leads one more partition. Followers whose requests wait here cannot ask for it before they have
        an answer, so they get one when the metadata have reached them, too."""
        if not self._is_leading_more:
            self._is_leading_more = True
            for delay_ms in NEW_LEADER_ANSWERS_MS:
                self.clock.call_later(delay_ms, self._answer_all)

    def _answer_all(self) -> None:
        self._is_leading_more = False
        for fetch in list(self.waiting):
            fetch.answer()

    def serve(self, request: FetchRequest, on_answer: OnAnswer) -> WaitingFollower | None:
        """Call `on_answer` once: now, or later, unless the returned fetch is cancelled before."""
        fetch = WaitingFollower(self, request, on_answer)
        fetch.begin()
        return fetch if fetch.is_waiting else None


class Wanted(NamedTuple):
    """One partition of the request. `answer` is final if the fetch was refused; then there is no `partition`."""

    want: FetchPartition
    partition: Partition | None
    answer: FetchedPartition


class WaitingFollower:
    def __init__(self, server: ReplicaFetches, request: FetchRequest, on_answer: OnAnswer) -> None:
        self.is_waiting = False
        self._server = server
        self._request = request
        self._on_answer = on_answer
        self._topics: list[tuple[UUID | None, list[Wanted]]] = []
        self._timer: Timer | None = None
        self._wake_up: Timer | None = None

    def begin(self) -> None:
        """Pass all fences before anything is read, so that every answer has the newest high watermark."""
        for _, topic_id, wanted in self._request.topics:
            self._topics.append((topic_id, [self._fence(topic_id, want) for want in wanted]))
        answers, is_final = self._read()
        if is_final or self._request.max_wait_ms <= 0:
            self._on_answer(answers)
        else:
            self._wait()

    def _fence(self, topic_id: UUID | None, want: FetchPartition) -> Wanted:
        index = want.partition
        partition = None if topic_id is None else self._server.partitions.by_id(topic_id, index)
        if partition is None:
            return Wanted(want, None, FetchedPartition(index, ErrorCode.UNKNOWN_TOPIC_ID))
        fetch = ReplicaFetch(
            BrokerId(self._request.replica_id),
            self._request.replica_epoch,
            LeaderEpoch(want.current_leader_epoch),
            Offset(want.fetch_offset),
            want.last_fetched_epoch,
            Offset(want.log_start_offset),
        )
        match partition.fetched(fetch, self._server.clock.now().monotonic_ms):
            case None:
                return Wanted(want, partition, FetchedPartition(index))
            case LeaderEpochMismatch(error, leader_epoch):
                leader = (partition.term.leader, leader_epoch) if partition.term is not None else None
                return Wanted(want, None, FetchedPartition(index, error, current_leader=leader))
            case Divergence() as divergence:
                return Wanted(want, None, FetchedPartition(index, diverging_epoch=divergence))
            case Refusal(error):
                start = partition.log_start_offset
                return Wanted(want, None, FetchedPartition(index, error, log_start_offset=start))

    def _read(self) -> tuple[FetchedTopics, bool]:
        """The answer as it is now, and whether it should not wait: it has records, or an error."""
        left = bytes_max = min(self._request.max_bytes, self._server.response_bytes_max)
        is_final = False
        topics: FetchedTopics = []
        for topic_id, wanted in self._topics:
            answers = []
            for want, partition, answer in wanted:
                if partition is not None:
                    answer = _read_to_end(partition, want, left, at_least_one=left == bytes_max)
                    left -= size_of((answer.records,))
                is_final = is_final or bool(answer.error_code) or answer.diverging_epoch is not None
                answers.append(answer)
            topics.append((None, topic_id, answers))
        return topics, is_final or left < bytes_max

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    def _wait(self) -> None:
        self.is_waiting = True
        self._server.waiting[self] = None
        self._timer = self._server.clock.call_later(self._request.max_wait_ms, self.answer)
        for partition in self._watched():
            partition.append_watchers.add(self, self._on_change)

    def _watched(self) -> list[Partition]:
        return [found for _, wanted in self._topics for _, found, _ in wanted if found is not None]

    def _on_change(self) -> None:
        """Answer after this turn of the loop, so that one answer has all its appends."""
        if self._wake_up is None:
            self._wake_up = self._server.clock.call_soon(self.answer)

    def answer(self) -> None:
        if self.is_waiting:
            self.cancel()
            self._on_answer(self._read()[0])

    def cancel(self) -> None:
        """Forget the fetch; no answer will be sent."""
        self.is_waiting = False
        self._server.waiting.pop(self, None)
        for timer in (self._timer, self._wake_up):
            if timer is not None:
                timer.cancel()
        for partition in self._watched():
            partition.append_watchers.remove(self)


def _read_to_end(
    partition: Partition, want: FetchPartition, bytes_left: int, *, at_least_one: bool
) -> FetchedPartition:
    index = want.partition
    if partition.is_offline:
        return FetchedPartition(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if not partition.leads or partition.leader_epoch != want.current_leader_epoch:  # the term ended during the wait
        return FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bytes_max, end = min(want.max_bytes, bytes_left), partition.log.end_offset
    outcome = read_below(partition, want.fetch_offset, bytes_max, end, at_least_one=at_least_one)
    if not isinstance(outcome, ReadResult):
        return FetchedPartition(index, outcome.error)
    high_watermark, stable, log_start, records, _ = outcome
    return FetchedPartition(index, 0, high_watermark, stable, log_start, records or b"")
