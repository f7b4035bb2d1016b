"""What clients get from a broker that leads or follows a partition with three replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mqcore.apis import delete_records, fetch, list_offsets, offset_for_leader_epoch
from mqcore.apis.call import LATER
from mqcore.config import BrokerConfig
from mqcore.controller.facts import BrokerRegistered
from mqcore.identity import BrokerId, LeaderEpoch, Millis, Offset
from mqcore.partitions.partition import Partition
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.roles import Membership
from mqcore.partitions.terms import Term
from mqcore.replication.serving import ReplicaFetches
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from mqcore.wire.requests.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mqcore.wire.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mqcore.wire.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.mqcore.apis.memory_broker import IDS, ORDERS, MemoryBroker, fetch_request
from tests.unit.mqcore.partitions.helpers import NOW_MS, batch
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

EPOCH = LeaderEpoch(9)
LATEST, EARLIEST = -1, -2


class Replicated(MemoryBroker):
    """Broker 1 has a replica of `orders` with two records."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.services.config = BrokerConfig(node_id=1, **config)
        self.services.replica_fetches = ReplicaFetches(self.partitions, self.clock, "PLAINTEXT", 1 << 20)  # type: ignore[arg-type]
        self.services.durability = SimpleNamespace(write_checkpoints=lambda: None)  # type: ignore[assignment]
        self.harnesses[ORDERS].append(batch(b"a", b"b"))
        self.partition_epoch = 0

    @property
    def partition(self) -> Partition:
        return self.harnesses[ORDERS].partition

    def term(self, leader: BrokerId, isr: tuple[BrokerId, ...], min_isr: int) -> Term:
        self.partition_epoch += 1
        return Term(leader, EPOCH, self.partition_epoch, (ONE, TWO, THREE), frozenset(isr), min_isr)

    def lead(self, *isr: BrokerId, min_isr: int = 2) -> None:
        now = self.clock.now().monotonic_ms
        self.partition.lead(self.term(ONE, isr, min_isr), Membership(ONE, 11), now)

    def follow(self) -> None:
        self.partition.follow(self.term(TWO, (ONE, TWO), 2), Membership(ONE, 11))

    def copied(self, by: BrokerId, end: int | None = None, log_start: int = 0) -> None:
        """A follower has fetched up to `end`."""
        log = self.partition.log
        offset = log.end_offset if end is None else end
        last_epoch = log.epochs.epoch_at(offset - 1)
        fetched = ReplicaFetch(by, 12, EPOCH, Offset(offset), last_epoch, Offset(log_start))
        assert self.partition.fetched(fetched, Millis(self.clock.monotonic_ms)) is None

    def offset(self, timestamp: int, version: int = 11) -> Any:
        wanted = ListOffsetsPartition(timestamp=timestamp)
        request = ListOffsetsRequest(isolation_level=0, topics=[ListOffsetsTopic(name=ORDERS, partitions=[wanted])])
        answer: Any = list_offsets.handle(request, self.call(version))
        (found,) = answer["topics"][0]["partitions"]
        return ErrorCode(found["error_code"]).name if found.get("error_code") else found["offset"]

    def delete(self, offset: int) -> Any:
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name=ORDERS, partitions=[wanted])]
        call = self.call(2)
        answer: Any = delete_records.handle(DeleteRecordsRequest(topics=topics, timeout_ms=1000), call)
        return call if answer is LATER else deleted(answer)

    def consume(self, offset: int = 0, *, version: int = 12, rack: str = "") -> FetchedPartition:
        request = fetch_request((ORDERS, offset), max_wait_ms=0)._replace(rack_id=rack)
        answer: Any = fetch.handle(request, self.call(version))
        found: FetchedPartition = answer[1][0][2][0]
        return found


def deleted(answer: Any) -> tuple[int, str]:
    (found,) = answer["topics"][0]["partitions"]
    return found["low_watermark"], ErrorCode(found["error_code"]).name


def errors(answer: Any) -> list[str]:
    return [ErrorCode(found.error_code).name for _, _, partitions in answer for found in partitions]


# ── produce ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("acks", "error"), [(-1, "NOT_ENOUGH_REPLICAS"), (1, "NONE")])
def test_below_min_insync_replicas_only_acks_of_all_are_refused_and_nothing_is_appended(acks: int, error: str) -> None:
    broker = Replicated()
    broker.lead(ONE, min_isr=2)
    answer, _ = broker.produce(ORDERS, acks=acks)
    assert errors(answer) == [error]
    assert broker.partition.log_end_offset == (3 if error == "NONE" else 2)


def test_a_produce_waits_until_the_in_sync_replicas_have_the_batch() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    answer, call = broker.produce(ORDERS)
    broker.copied(TWO, 2)
    assert answer is LATER and call.answers == []
    broker.copied(TWO)
    assert errors(call.answers[0]) == ["NONE"]


def test_a_batch_that_is_committed_below_min_insync_replicas_is_not_acknowledged() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    _, call = broker.produce(ORDERS)
    broker.lead(ONE)  # the other replica was fenced
    assert errors(call.answers[0]) == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]


@pytest.mark.parametrize(("min_isr", "error"), [(2, "REQUEST_TIMED_OUT"), (3, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")])
def test_at_its_deadline_a_produce_tells_whether_too_few_replicas_were_in_sync(min_isr: int, error: str) -> None:
    broker = Replicated()
    broker.lead(ONE, TWO, THREE, min_isr=min_isr)
    _, call = broker.produce(ORDERS, timeout_ms=1000)
    broker.lead(ONE, TWO, min_isr=min_isr)
    broker.clock.advance(1000)
    assert errors(call.answers[0]) == [error]


def test_a_produce_whose_leader_steps_down_is_told_to_look_for_another_one() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    _, call = broker.produce(ORDERS)
    broker.follow()
    assert errors(call.answers[0]) == ["NOT_LEADER_OR_FOLLOWER"]


# ── requests that only a leader answers ──────────────────────────────────────────────────────────────────


def test_a_follower_does_not_answer_what_only_a_leader_knows() -> None:
    broker = Replicated()
    broker.follow()
    answer, _ = broker.produce(ORDERS)
    assert errors(answer) == ["NOT_LEADER_OR_FOLLOWER"]
    assert broker.offset(LATEST) == broker.offset(EARLIEST) == "NOT_LEADER_OR_FOLLOWER"
    assert broker.delete(1) == (-1, "NOT_LEADER_OR_FOLLOWER")
    wanted = OffsetForLeaderPartition(current_leader_epoch=-1, leader_epoch=3)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=ORDERS, partitions=[wanted])])
    (found,) = offset_for_leader_epoch.handle(request, broker.call(4))["topics"][0]["partitions"]
    assert found["error_code"] is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("version", "error"), [(5, "OFFSET_NOT_AVAILABLE"), (4, "LEADER_NOT_AVAILABLE")])
def test_the_latest_offset_is_unknown_until_the_leader_knows_the_committed_end(version: int, error: str) -> None:
    broker = Replicated()
    broker.follow()
    broker.partition.high_watermark = Offset(1)
    broker.lead(ONE, TWO)
    broker.partition.role = None  # another term
    broker.lead(ONE, TWO)
    assert (broker.offset(LATEST, version), broker.offset(EARLIEST, version)) == (error, 0)
    broker.copied(TWO)
    assert broker.offset(LATEST, version) == 2


def test_deleted_records_are_reported_once_the_followers_have_deleted_them() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.copied(TWO)
    call = broker.delete(1)
    broker.copied(TWO, log_start=0)
    assert call.answers == []
    broker.copied(TWO, log_start=1)
    assert deleted(call.answers[0]) == (1, "NONE")


def test_a_deletion_that_a_follower_does_not_carry_out_in_time_is_a_timeout() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.copied(TWO)
    call = broker.delete(1)
    broker.clock.advance(1000)
    assert deleted(call.answers[0]) == (-1, "REQUEST_TIMED_OUT")


# ── consumers and followers ──────────────────────────────────────────────────────────────────────────────


def test_a_consumer_reads_from_a_follower_up_to_its_high_watermark() -> None:
    broker = Replicated()
    broker.follow()
    assert broker.consume(0, version=11).records and broker.consume(2).error_code == 0
    assert broker.consume(0, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.partition.high_watermark = Offset(0)
    assert broker.consume(2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert broker.consume(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def with_racks() -> Replicated:
    broker = Replicated(replica_selector_class="RackAwareReplicaSelector")
    image = broker.services.image
    for number, rack in ((1, "a"), (2, "b"), (3, "b")):
        image.apply(BrokerRegistered(BrokerId(number), broker.services.directory_id, 5, (), rack, fenced=False))
    broker.lead(ONE, TWO)
    broker.copied(TWO)
    broker.copied(THREE)
    return broker


def test_a_consumer_is_sent_to_an_in_sync_replica_in_its_rack() -> None:
    broker = with_racks()
    found = broker.consume(0, rack="b")
    assert (found.preferred_read_replica, found.records) == (2, b"")
    for rack in ("a", "c", ""):
        found = broker.consume(0, rack=rack)
        assert found.preferred_read_replica == -1 and found.records


def test_without_a_selector_every_consumer_reads_from_the_leader() -> None:
    broker = with_racks()
    broker.services.config = BrokerConfig(node_id=1)
    assert broker.consume(0, rack="b").preferred_read_replica == -1


def follower_request(offset: int, max_wait_ms: int = 0, broker: int = 2) -> FetchRequest:
    wanted = FetchPartition(0, EPOCH, offset, 3 if offset else -1, 0, 1 << 20)
    topics = [FetchTopic(None, IDS[ORDERS], [wanted])]
    return FetchRequest(max_wait_ms, 1, 1 << 20, 0, 0, -1, topics, replica_id=broker, replica_epoch=12)


def test_a_follower_reads_to_the_end_of_the_log() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.harnesses[ORDERS].append(batch(b"c", timestamp=NOW_MS))
    call = broker.call(17)
    assert fetch.handle(follower_request(2), call) is LATER
    (found,) = call.answers[0][1][0][2]
    assert found.records.length and found.high_watermark == 2


def test_a_waiting_follower_is_answered_after_an_append_and_forgotten_when_it_disconnects() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    calls = [broker.call(17), broker.call(17)]
    for call in calls:
        fetch.handle(follower_request(2, max_wait_ms=500), call)
    calls[1].disconnect()
    broker.harnesses[ORDERS].append()
    broker.clock.advance(0)
    assert len(calls[0].answers) == 1 and calls[1].answers == []
    assert len(broker.partition.append_watchers) == 0


def test_a_waiting_follower_is_answered_with_an_error_when_the_term_ends() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    call = broker.call(17)
    fetch.handle(follower_request(2, max_wait_ms=500), call)
    broker.follow()
    broker.clock.advance(0)
    assert errors(call.answers[0][1]) == ["NOT_LEADER_OR_FOLLOWER"]


def test_on_a_listener_for_clients_no_client_may_pass_for_a_follower() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    call = broker.call(17)
    call.listener = "CLIENTS"
    answer: Any = fetch.handle(follower_request(2), call)
    assert errors(answer[1]) == ["NOT_LEADER_OR_FOLLOWER"]
    assert broker.partition.high_watermark == 2


def test_a_fetch_of_a_broker_without_a_replica_moves_nothing() -> None:
    broker = Replicated()
    broker.lead(ONE, TWO)
    broker.harnesses[ORDERS].append()
    call = broker.call(17)
    fetch.handle(follower_request(3, broker=9), call)
    assert errors(call.answers[0][1]) == ["UNKNOWN_LEADER_EPOCH"]
    assert broker.partition.high_watermark == 2


def test_a_waiting_follower_is_answered_when_this_broker_begins_to_lead_another_partition() -> None:
    """Its next request can then name that partition, too."""
    broker = Replicated()
    broker.lead(ONE, TWO, THREE)
    fetches = broker.services.replica_fetches
    assert fetches is not None
    log, answers = broker.partition.log, list[object]()
    want = FetchPartition(0, EPOCH, log.end_offset, log.epochs.last_epoch, 0, 1 << 20)
    topics = [FetchTopic(None, IDS[ORDERS], [want])]
    fetches.serve(FetchRequest(500, 1, 1 << 20, 0, 0, -1, topics, replica_id=TWO, replica_epoch=12), answers.append)
    broker.clock.advance(50)
    assert answers == []
    fetches.begin_to_lead()
    broker.clock.advance(10)
    assert len(answers) == 1
    broker.clock.advance(1000)
    assert len(answers) == 1
