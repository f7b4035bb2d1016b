"""What producers and administrators get from a broker that leads or follows a partition with three replicas."""

from __future__ import annotations

import pytest

from mqcore.apis import offset_for_leader_epoch
from mqcore.apis.call import LATER
from mqcore.identity import Offset
from mqcore.wire.errors import ErrorCode
from mqcore.wire.requests.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.mqcore.apis.memory_broker import ORDERS
from tests.unit.mqcore.apis.replicated_broker import EARLIEST, LATEST, Replicated, deleted, errors
from tests.unit.mqcore.partitions.replicas import ONE, THREE, TWO

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
