"""Scenarios in which logs differ and one of them is cut, also after an unclean election."""

from __future__ import annotations

from mqcore.wire.errors import ErrorCode
from tests.simulation.replication.bench import Bench
from tests.simulation.replication.broker import FetchRecords
from tests.simulation.replication.records import RecordId
from tests.simulation.replication.scenario_steps import ALL, acknowledged, elect, errors, without_three


def s1_a_follower_keeps_what_is_above_its_high_watermark_when_the_leader_changes(bench: Bench) -> None:
    """KIP-101: followers learn the high watermark one fetch late, so it says nothing about what is committed."""
    answers = bench.produce(1, 0, 1)
    bench.replicate(2, 3)
    assert acknowledged(answers) and bench.replica(3).high_watermark == 0
    bench.kill(1)
    bench.fence(1)
    bench.tell(2, 3)
    bench.kill(2)  # before broker 3 could fetch anything again
    bench.fence(2)
    bench.tell(3)
    assert bench.records(3) == [RecordId(1, 0), RecordId(1, 1)]


def s2_a_returning_leader_gives_up_what_no_other_broker_has(bench: Bench) -> None:
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.produce(1, 1, acks=1)
    bench.kill(1)
    bench.fence(1)
    bench.tell(2, 3)
    bench.produce(2, 2)
    bench.replicate(3)
    bench.start_and_register(1)
    bench.tell(1, 2, 3)
    assert bench.records(1) == [RecordId(1, 0), RecordId(1, 1)]
    bench.replicate(1)
    assert bench.records(1) == bench.records(2) == [RecordId(1, 0), RecordId(2, 2)]


def s3_after_two_fast_elections_the_own_epoch_decides_where_to_cut(bench: Bench) -> None:
    """KIP-279. The elections are unclean, so records may go, but the logs have to become equal."""
    bench.truth.tolerates_loss = True
    bench.controller.allows_unclean = True
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.produce(1, 1, acks=1)
    bench.kill(1)
    bench.fence(1, 3)
    bench.tell(2)
    for number in (2, 3, 4):
        bench.produce(2, number, acks=1)
    bench.start_and_register(1)
    bench.kill(2)
    bench.fence(2)
    bench.tell(1)
    assert bench.leader(1).term.leader_epoch == 3
    bench.start_and_register(2)
    bench.tell(1, 2)
    bench.replicate(2)
    assert bench.records(2) == bench.records(1) == [RecordId(1, 0), RecordId(1, 1)]
    bench.alter(1)
    assert bench.isr == {1, 2}


def s5_a_fetch_of_an_earlier_term_counts_for_nothing(bench: Bench) -> None:
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.produce(1, 1, acks=1)
    bench.fetch(3)  # broker 3 has it now; its next fetch says so, and stays on its way
    late = bench.on_its_way(3, FetchRecords)
    assert late is not None and late.request.fetch.offset == 2 and not late.is_delivered
    bench.fence(1)
    bench.unfence(1)
    bench.tell(1, 2)  # broker 3 hears nothing
    bench.produce(2, 2, acks=1)
    bench.replicate(1)
    bench.alter(2)
    bench.fence(2)
    bench.unfence(2)
    bench.tell(1, 2)
    assert bench.leader(1).term.leader_epoch == 3 and bench.isr == {1, 3}
    before = bench.leader(1).followers[bench.brokers[late.request.fetch.replica].id].end
    late.deliver()
    bench.check()
    assert late.answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert bench.leader(1).followers[late.request.fetch.replica].end == before is None
    assert bench.leader(1).high_watermark < 2


def s6_an_answer_of_an_earlier_leader_is_dropped(bench: Bench) -> None:
    bench.produce(1, 0)
    bench.replicate(2, 3)
    late = bench.on_its_way(3, FetchRecords)
    assert late is not None and late.is_delivered
    bench.produce(1, 1, acks=1)  # the answer to broker 3 has it, and stays on its way
    bench.kill(1)
    bench.fence(1)
    bench.tell(2, 3)
    late.finish()
    assert bench.records(3) == [RecordId(1, 0)]


def s7_every_term_begins_where_the_log_ends_even_without_records(bench: Bench) -> None:
    without_three(bench)
    bench.produce(1, 0)
    bench.replicate(2)
    starts = []
    for leader in (2, 1, 2):
        other = 3 - leader
        bench.fence(other)
        bench.unfence(other)
        bench.tell(leader, other)
        assert bench.leader(leader).term.leader_epoch > 1
        starts.append(bench.leader(leader).epoch_start)
        bench.replicate(other)
        bench.alter(leader)
    assert starts == [1, 1, 1]
    bench.unfence(3)
    bench.tell(1, 2, 3)
    assert bench.proposal(2) is None, "broker 3 has not fetched in this term"
    bench.replicate(3)
    bench.alter(2)
    assert bench.isr == ALL


def s8_a_batch_that_was_cut_may_be_written_again(bench: Bench) -> None:
    bench.produce(1, 0, producer=7, sequence=0)
    bench.replicate(2, 3)
    first = bench.produce(1, 1, producer=7, sequence=1)  # reaches no other broker
    elect(bench, 2)
    assert errors(first) == ["NOT_LEADER_OR_FOLLOWER"]
    bench.produce(2, 2, acks=1)
    bench.replicate(1, 3)
    bench.alter(2)
    elect(bench, 1)
    again = bench.produce(1, 1, producer=7, sequence=1)
    bench.replicate(2, 3)
    assert acknowledged(again) and bench.records(1) == [RecordId(1, 0), RecordId(2, 2), RecordId(3, 1)]


def s17_after_an_unclean_election_the_logs_become_equal_and_readers_notice_the_loss(bench: Bench) -> None:
    bench.truth.tolerates_loss = True
    bench.controller.allows_unclean = True
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.fence(3)
    bench.tell(1, 2)
    answers = bench.produce(1, 1, 2)
    bench.replicate(2)
    assert acknowledged(answers)
    bench.kill(1)
    bench.kill(2)
    bench.fence(1, 2)
    bench.unfence(3)
    bench.tell(3)
    assert bench.isr == {3}
    bench.start_and_register(1)
    bench.start_and_register(2)
    bench.tell(1, 2, 3)
    bench.replicate(1, 2)
    assert bench.records(1) == bench.records(2) == bench.records(3) == [RecordId(1, 0)]
    epoch = bench.leader(3).term.leader_epoch
    assert bench.replica(3).consume(3, epoch).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
