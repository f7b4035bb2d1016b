"""Scenarios of the in-sync replicas and of the high watermark."""

from __future__ import annotations

from dataclasses import replace

from mqcore.identity import BrokerId
from mqcore.replication.altering import AlterAnswer
from mqcore.wire.errors import ErrorCode
from tests.simulation.replication.bench import Bench
from tests.simulation.replication.broker import FetchRecords
from tests.simulation.replication.records import GONE, RecordId
from tests.simulation.replication.scenario_steps import ALL, acknowledged, errors, without_three


def s9_a_new_leader_admits_only_followers_with_everything_from_before_its_term(bench: Bench) -> None:
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.fence(3)
    bench.tell(1, 2)
    answers = bench.produce(1, 1)
    bench.replicate(2)
    assert acknowledged(answers)
    bench.controller.move_leader(bench.partition, BrokerId(2))  # broker 1 stays in the ISR, and hears nothing
    bench.unfence(3)
    bench.tell(2, 3)
    assert bench.leader(2).high_watermark == 1, "older than what broker 1 has acknowledged"
    bench.fetch_reaches(3)  # with offset 1: not below the high watermark
    if bench.proposal(2) is not None:
        bench.alter(2)
    assert bench.isr == {1, 2}
    bench.replicate(3)
    bench.alter(2)
    assert bench.isr == ALL


def s10_a_proposed_member_holds_the_high_watermark(bench: Bench) -> None:
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    proposal = bench.proposal(1)
    assert proposal is not None
    answers = bench.produce(1, 0)
    bench.replicate(2)
    assert not answers and bench.leader(1).high_watermark == 0
    bench.controller_reads(proposal)
    assert bench.isr == ALL
    proposal.finish()
    bench.replicate(3)
    assert acknowledged(answers)


def s11_a_proposal_without_an_answer_stays_in_force(bench: Bench) -> None:
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    proposal = bench.proposal(1)
    assert proposal is not None
    bench.controller_reads(proposal)
    proposal.finish(None)  # the answer is lost
    answers = bench.produce(1, 0)
    bench.replicate(2)
    assert not answers
    bench.wait(200)
    second = bench.alter(1)
    assert second.answer.partitions[bench.partition] is ErrorCode.INVALID_UPDATE_VERSION
    bench.replicate(2)
    assert not answers
    bench.tell(1)
    bench.replicate(3)
    assert acknowledged(answers)


def s12_a_proposal_that_has_not_seen_the_newest_isr_is_refused(bench: Bench) -> None:
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    proposal = bench.proposal(1)
    assert proposal is not None
    bench.fence(2)
    bench.controller_reads(proposal)
    assert proposal.answer.partitions[bench.partition] is ErrorCode.INVALID_UPDATE_VERSION and bench.isr == {1}


def s13_a_broker_that_has_lost_its_disk_is_not_taken_for_its_former_self(bench: Bench) -> None:
    """KIP-903: the leader knows it by a broker epoch that the controller has replaced."""
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.replicate(2)
    proposal = bench.proposal(1)
    assert proposal is not None and 3 in next(iter(proposal.request.proposals.values())).isr
    bench.wipe(3)
    bench.start_and_register(3)
    bench.controller_reads(proposal)
    assert proposal.answer == AlterAnswer({bench.partition: ErrorCode.INELIGIBLE_REPLICA}) and bench.isr == {1, 2}


def a_refused_proposal_no_longer_holds_the_high_watermark(bench: Bench) -> None:
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    proposal = bench.proposal(1)
    assert proposal is not None
    bench.fence(3)
    bench.controller_reads(proposal)
    proposal.finish()
    answers = bench.produce(1, 0)
    bench.replicate(2)
    assert acknowledged(answers)


def a_late_proposal_that_is_applied_after_all_does_no_harm(bench: Bench) -> None:
    """Trap 11: a controller that was paused reads it, and nothing has changed the partition epoch meanwhile."""
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    late = bench.proposal(1)
    assert late is not None
    late.finish(None)  # the leader has waited long enough
    bench.fence(3)
    bench.wait(200)
    bench.fetch_reaches(2)
    second = bench.proposal(1)
    if second is not None and second is not late:
        bench.controller_reads(second)  # refused, because broker 3 is fenced
        second.finish()
    answers = bench.produce(1, 0)
    bench.replicate(2)
    bench.unfence(3)
    bench.controller_reads(late)
    assert not answers
    bench.tell(1, 2, 3)
    bench.replicate(3)
    assert acknowledged(answers) and bench.isr == ALL


def s18_acks_all_needs_min_insync_replicas_before_and_after_the_append(bench: Bench) -> None:
    waiting = bench.produce(1, 0, producer=7, sequence=0)
    bench.fence(2, 3)
    bench.tell(1)
    assert errors(waiting) == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
    assert errors(bench.produce(1, 1)) == ["NOT_ENOUGH_REPLICAS"] and len(bench.records(1)) == 1
    assert acknowledged(bench.produce(1, 2, acks=1))
    bench.unfence(2)
    bench.tell(1, 2)
    bench.replicate(2)
    bench.alter(1)
    again = bench.produce(1, 0, producer=7, sequence=0)
    bench.replicate(2)
    assert acknowledged(again) and again[0].base_offset == 0 and len(bench.records(1)) == 2


def s19_a_leader_without_controller_acknowledges_and_shows_nothing_new(bench: Bench) -> None:
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.replicate(2, 3)
    bench.fence(1)
    bench.tell(2, 3)  # broker 1 still believes that it leads
    refused = bench.produce(1, 1)
    answers = bench.produce(2, 2)
    bench.replicate(3)
    bench.wait(2000)
    bench.replica(1).consume(0, 1)
    assert not refused and bench.replica(1).visible_end() == 1
    bench.unfence(1)
    bench.tell(1, 2, 3)
    assert errors(refused) == ["NOT_LEADER_OR_FOLLOWER"]
    bench.replicate(1, 3)
    assert acknowledged(answers) and bench.records(1) == bench.records(2) == [RecordId(1, 0), RecordId(2, 2)]


def s20_a_slow_follower_leaves_the_isr_and_comes_back(bench: Bench) -> None:
    answers = bench.produce(1, 0)
    bench.replicate(2)
    assert not answers
    bench.wait(1001)
    bench.fetch_reaches(2)
    bench.alter(1)
    assert bench.isr == {1, 2} and acknowledged(answers)
    bench.replicate(3)
    bench.alter(1)
    assert bench.isr == ALL


def s24_a_new_leader_does_not_report_the_committed_end_before_it_knows_it(bench: Bench) -> None:
    answers = bench.produce(1, 0, 1)
    bench.replicate(2, 3)
    assert acknowledged(answers) and bench.leader(1).knows_committed_end
    bench.kill(1)
    bench.fence(1)
    bench.tell(2, 3)
    assert bench.leader(2).high_watermark < 2 and not bench.leader(2).knows_committed_end
    bench.replicate(3)
    assert bench.leader(2).high_watermark == 2 and bench.leader(2).knows_committed_end


def a_follower_behind_the_log_start_begins_inside_a_batch(bench: Bench) -> None:
    """Trap 15: records were deleted up to the middle of a batch while a follower was away."""
    bench.produce(1, 0)
    bench.replicate(2, 3)
    bench.fence(3)
    bench.tell(1, 2)
    bench.produce(1, 1, 2, 3, 4)
    bench.replicate(2)
    bench.replica(1).log.advance_start(3)
    bench.produce(1, 5)
    bench.replicate(2)
    assert bench.leader(1).low_watermark == 3 and bench.replica(2).log.start_offset == 3
    bench.kill(3)
    bench.start_and_register(3)
    bench.tell(1, 2, 3)
    bench.replicate(3)
    assert bench.records(3) == bench.records(1) == [GONE, GONE, GONE, *(RecordId(1, number) for number in (3, 4, 5))]
    bench.alter(1)
    assert bench.isr == ALL


def a_message_about_a_deleted_topic_means_nothing_to_the_next_one(bench: Bench) -> None:
    """Trap 23: the next topic has the same name, the same folders and the same leader epochs, but another id."""
    without_three(bench)
    bench.unfence(3)
    bench.tell(1, 2, 3)
    answers = bench.produce(1, 0)
    bench.replicate(3)
    proposal = bench.proposal(1)
    assert proposal is not None and not answers
    bench.recreate()
    bench.tell(1)
    assert errors(answers) == ["NOT_LEADER_OR_FOLLOWER"] and bench.records(1) == []
    bench.brokers[BrokerId(2)].fetch_all()
    late = bench.on_its_way(2, FetchRecords)
    assert late is not None and late.request.partition != bench.partition
    late.deliver()
    assert late.answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    bench.controller_reads(proposal)
    proposal.finish()
    assert bench.isr == ALL and bench.leader(1).isr.is_certain
    bench.tell(2, 3)
    late.finish()
    answers = bench.produce(1, 1)
    bench.replicate(2, 3)
    assert acknowledged(answers) and bench.records(2) == bench.records(3) == [RecordId(1, 1)]


def a_follower_promises_only_what_it_has_synced(bench: Bench) -> None:
    """With flush.messages=1: what is acknowledged survives if all brokers lose their power at once."""
    bench = Bench(replace(bench.setup, durable_only=True))
    answers = bench.produce(1, 0)
    bench.replica(1).sync()
    bench.replicate(2, 3)
    assert not answers and bench.leader(1).high_watermark == 0
    bench.replica(2).sync()
    bench.replicate(2)
    assert not answers
    bench.replica(3).sync()
    bench.replicate(3)
    assert acknowledged(answers)
