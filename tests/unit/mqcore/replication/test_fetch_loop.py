"""The loop that copies from one leader: one request at a time, for all partitions that follow it."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import BrokerId, LeaderEpoch, TopicPartition
from mqcore.links.link import OnResponse
from mqcore.links.outcome import LinkFault
from mqcore.log.log import Log
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import NO_LEADER, Term
from mqcore.replication.fetch_loop import ANSWER_MS_MAX, FetchLoops, FetchRules
from mqcore.wire.batches import stamp
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition, FetchRequest, decode_fetch, encode_fetch_response
from mqcore.wire.replica_fetch import VERSION
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import HeldFlusher
from tests.unit.mqcore.partitions.helpers import batch
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

TOPIC_ID = UUID(int=7)
SESSION = 9


@dataclass
class FakeLink:
    """Keeps requests until the test answers them."""

    open: list[tuple[FetchRequest, OnResponse]] = field(default_factory=list)
    timeouts: list[int] = field(default_factory=list)
    is_closed: bool = False

    def send(self, key: int, version: int, body: bytes, timeout_ms: int, on_response: OnResponse) -> None:
        self.timeouts.append(timeout_ms)
        self.open.append((decode_fetch(version, memoryview(body)), on_response))

    def close(self) -> None:
        self.is_closed = True
        if self.open:
            self.fail()

    def asked(self) -> dict[int, int]:
        """{partition: offset} of the only open request."""
        ((request, _),) = self.open
        return {want.partition: want.fetch_offset for topic in request.topics for want in topic.partitions}

    def fail(self) -> None:
        ((_, on_response),) = self.open
        self.open.clear()
        on_response(LinkFault("broken"))

    @property
    def session(self) -> tuple[int, int]:
        ((request, _),) = self.open
        return request.session_id, request.session_epoch

    def answer(self, *found: FetchedPartition, error: int = 0, cut: int = 0, session_id: int = SESSION) -> None:
        ((_, on_response),) = self.open
        self.open.clear()
        pieces = encode_fetch_response(VERSION, [(None, TOPIC_ID, found)], error_code=error, session_id=session_id)
        body = b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
        on_response(memoryview(body)[: len(body) - cut])


def records(offset: int, *values: bytes) -> bytes:
    data = batch(*values)
    stamp(data, offset, 4)
    return bytes(data)


class Follower:
    """A broker that follows partitions 0 and 1."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.clock = VirtualClock()
        self.flusher = HeldFlusher()
        self.disk = MemoryDisk()
        self.hosted = HostedPartitions(self.disk, self.clock, self.flusher, is_clean=False)
        self.links: dict[BrokerId, FakeLink] = {}
        self.loops = FetchLoops(self._link_to, self.clock, FetchRules())
        for index in (0, 1):
            opened = self.hosted.open(TopicPartition("orders", index), TOPIC_ID, settings or {})
            assert opened is not None

    def _link_to(self, leader: BrokerId) -> FakeLink:
        self.links[leader] = FakeLink()
        return self.links[leader]

    def __getitem__(self, index: int) -> Partition:
        found = self.hosted.by_id(TOPIC_ID, index)
        assert found is not None
        return found

    def follow(self, index: int, leader: BrokerId = TWO, epoch: int = 5) -> None:
        term = Term(leader, LeaderEpoch(epoch), epoch, (ONE, TWO, THREE), frozenset((TWO, THREE)), 2)
        self[index].follow(term, Membership(ONE, 11))
        self.loops.follow(self[index])
        self.clock.advance(0)


def following(settings: dict[str, str] | None = None) -> tuple[Follower, FakeLink]:
    """Both partitions follow broker 2, whose link has one open request."""
    follower = Follower(settings)
    for index in (0, 1):
        term = Term(TWO, LeaderEpoch(5), 5, (ONE, TWO, THREE), frozenset((TWO, THREE)), 2)
        follower[index].follow(term, Membership(ONE, 11))
        follower.loops.follow(follower[index])
    follower.clock.advance(0)
    return follower, follower.links[TWO]


def test_one_request_asks_for_all_partitions_of_a_leader() -> None:
    _, link = following()
    assert link.asked() == {0: 0, 1: 0}
    assert link.session == (0, 0)
    assert link.timeouts == [500 + ANSWER_MS_MAX]


def test_the_next_request_of_the_session_follows_at_once_and_names_only_what_has_been_answered() -> None:
    follower, link = following()
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a", b"b")))
    assert link.asked() == {0: 2}
    assert link.session == (SESSION, 1)
    assert follower[0].log_end_offset == 2
    link.answer(FetchedPartition(1, 0, 0, 0, 0, records(0, b"c")))
    assert link.asked() == {1: 1}
    assert link.session == (SESSION, 2)


def test_an_answer_with_a_high_watermark_alone_leaves_the_partition_asked_for() -> None:
    follower, link = following()
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a", b"b")))
    link.answer(FetchedPartition(0, 0, 2, 2, 0))
    assert link.asked() == {}
    assert follower[0].high_watermark == 2
    link.answer(FetchedPartition(0, 0, 2, 2, 0, records(2, b"c")))
    assert link.asked() == {0: 3}


def test_a_new_log_start_is_confirmed_by_asking_again() -> None:
    follower, link = following()
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a", b"b")))
    link.answer(FetchedPartition(0, 0, 2, 2, 1))
    ((request, _),) = link.open
    assert [want.log_start_offset for want in request.topics[0].partitions] == [1]
    assert follower[0].log.start_offset == 1


def test_a_leader_that_remembers_nothing_is_asked_for_everything_after_a_pause() -> None:
    follower, link = following()
    link.answer(session_id=0)
    assert link.open == []
    follower.clock.advance(100)
    assert link.asked() == {0: 0, 1: 0}
    assert link.session == (0, 0)


def test_a_dropped_partition_is_forgotten_by_the_next_request() -> None:
    follower, link = following()
    follower.loops.drop(follower[1])
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a")))
    ((request, _),) = link.open
    assert [(each.topic_id, each.partitions) for each in request.forgotten] == [(TOPIC_ID, (1,))]


def test_a_partition_that_is_added_meanwhile_is_part_of_the_next_request() -> None:
    follower = Follower()
    follower.follow(0)
    follower.follow(1)
    link = follower.links[TWO]
    assert link.asked() == {0: 0}
    link.answer()
    assert link.asked() == {1: 0}


@pytest.mark.parametrize("trouble", ["broken", "refused", "cut off"])
def test_after_an_answer_without_use_the_loop_asks_again_after_a_pause(trouble: str) -> None:
    follower, link = following()
    match trouble:
        case "broken":
            link.fail()
        case "refused":
            link.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        case _:
            link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a")), cut=9)
    assert link.open == []
    follower.clock.advance(99)
    assert link.open == []
    follower.clock.advance(1)
    assert link.asked() == {0: 0, 1: 0}
    assert link.session == (0, 0)


def test_while_one_partition_pauses_the_others_are_asked_for_and_wait_no_longer_than_the_pause() -> None:
    _, link = following()
    link.answer(FetchedPartition(0, ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert link.asked() == {}
    assert link.open[0][0].max_wait_ms == 100


def test_a_durable_partition_is_asked_for_only_once_its_sync_has_ended() -> None:
    follower, link = following({"flush.messages": "1"})
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"a")), FetchedPartition(1, 0, 0, 0, 0))
    follower.clock.advance(0)
    assert link.open == []  # a request for the other one could wait for half a second
    follower.flusher.run_requested()
    follower.clock.advance(0)
    assert link.asked() == {0: 1}


def test_an_answer_to_an_earlier_role_is_ignored() -> None:
    follower, link = following()
    follower[0].follow(Term(NO_LEADER, LeaderEpoch(6), 6, (ONE, TWO, THREE), frozenset((TWO,)), 2), Membership(ONE, 11))
    link.answer(FetchedPartition(0, 0, 1, 1, 0, records(0, b"a")), FetchedPartition(1, 0, 0, 0, 0))
    assert follower[0].log_end_offset == 0
    assert link.asked() == {}


def test_a_partition_moves_to_the_loop_of_its_new_leader() -> None:
    follower, link = following()
    follower.follow(0, THREE, epoch=6)
    assert follower.links[THREE].asked() == {0: 0}
    link.answer(FetchedPartition(0, 0, 0, 0, 0, records(0, b"late")), FetchedPartition(1, 0, 0, 0, 0))
    assert link.asked() == {} and follower[0].log_end_offset == 0


def test_a_connection_without_partitions_is_closed() -> None:
    follower, link = following()
    follower.loops.drop(follower[0])
    assert not link.is_closed
    follower.loops.drop(follower[1])
    assert link.is_closed
    follower.follow(0)
    follower.clock.advance(100)
    assert follower.links[TWO] is not link and follower.links[TWO].asked() == {0: 0}


def test_an_exception_in_one_partition_pauses_it_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    follower, link = following()

    def fail(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(follower[0].appender, "append_fetched", fail)
    fetched = [FetchedPartition(index, 0, 0, 0, 0, records(0, b"a")) for index in (0, 1)]
    link.answer(*fetched)
    assert "a fetched partition could not be appended" in caplog.text
    assert link.asked() == {1: 1}


def test_a_cut_removes_the_checkpoints_above_it_before_the_log_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    follower, link = following()
    link.answer(FetchedPartition(0, 0, 2, 2, 0, records(0, b"a", b"b")), FetchedPartition(1, 0, 0, 0, 0))
    stored, seen = follower.hosted.stored_offsets, []
    stored.write("recovery-point-offset-checkpoint", {follower[0].name: 2})
    follower[0].log.recovery_point = 2
    truncate = Log.truncate_to

    def watched(log: Log, offset: int) -> None:
        seen.append(stored.get("recovery-point-offset-checkpoint", follower[0].name))
        truncate(log, offset)

    monkeypatch.setattr(Log, "truncate_to", watched)
    link.answer(FetchedPartition(0, 0, diverging_epoch=(3, 0)), FetchedPartition(1, 0, 0, 0, 0))
    assert (follower[0].log_end_offset, follower[0].high_watermark) == (0, 0)
    assert seen == [0] and follower[0].log.recovery_point == 0
