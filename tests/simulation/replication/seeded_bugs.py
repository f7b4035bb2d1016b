"""Bugs of replicated logs, put back one at a time. Each must be found: by random histories or by a directed scenario.

The numbers follow the design's list. M8, M10 and M11 are about the ELR (KIP-966), which this broker does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from mqcore.identity import BrokerId, Millis, Offset
from mqcore.links.outcome import LinkFault
from mqcore.partitions.follower import FollowerState, Truncate
from mqcore.partitions.isr import Isr
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.log_view import LogView
from mqcore.partitions.producers import Duplicate, Producers
from mqcore.partitions.reads import ReplicaFetch
from mqcore.partitions.terms import AlterOutcome, Applied, NotApplied, Proposal, Term, Unknown
from mqcore.partitions.waiting_requests import Acknowledgements, NotLeader, StorageFault
from mqcore.replication.altering import AlterAnswer, AlterAsk, AlterPartitions, Settled
from mqcore.wire.batches import BatchHeader
from mqcore.wire.errors import Refusal
from tests.simulation.replication.controller import ControllerModel
from tests.simulation.replication.replica import Parts, Replica
from tests.simulation.replication.setup import Setup


class CutsAtHighWatermark(Replica):
    def follow(self, term: Term) -> None:
        super().follow(term)
        if self.high_watermark < self.log.end_offset:
            self.carry_out(Truncate(self.high_watermark))


class NoDivergenceCheck(LeaderState):
    def _fence(self, fetch: ReplicaFetch) -> Any:
        return super()._fence(replace(fetch, last_fetched_epoch=-1))


class CutsWhereTheLeaderEnds(FollowerState):
    def _cut_at(self, epoch: int, end: int, log: LogView) -> int:
        return max(end, log.start_offset)


class CountsCommittedIsr(LeaderState):
    def _counted(self) -> frozenset[BrokerId]:
        return self.isr.committed


class ForgetsUnknownOutcomes(Isr):
    def settle(self, proposal: Proposal, outcome: AlterOutcome) -> bool:
        return super().settle(proposal, NotApplied() if isinstance(outcome, Unknown) else outcome)


class NeverGivesUp(Isr):
    def settle(self, proposal: Proposal, outcome: AlterOutcome) -> bool:
        return isinstance(outcome, Applied) and super().settle(proposal, outcome)


class TakesFailedForRefused(LeaderState):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.isr = ForgetsUnknownOutcomes(self.term)


class IgnoresRefusals(LeaderState):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.isr = NeverGivesUp(self.term)


class NoEpochStartRule(LeaderState):
    def _may_join(self, broker: BrokerId) -> bool:
        follower = self.followers[broker]
        if follower.end is None or follower.end < self.high_watermark:
            return False
        return self._is_eligible(broker, follower.broker_epoch)


class OwnMinimum(LeaderState):
    @property
    def has_enough_replicas(self) -> bool:
        return len(self.isr.committed) >= 1


class AcknowledgesEarly(Acknowledgements):
    def release(self, local_end: int, high_watermark: int) -> None:
        super().release(local_end, local_end)


class OutlivesTheTerm(Acknowledgements):
    def fail(self, outcome: NotLeader | StorageFault) -> None:
        pass


class ShowsUncommitted(Replica):
    def visible_end(self) -> int:
        return self.log.end_offset


class CountsBeforeFences(LeaderState):
    def fetched(self, fetch: ReplicaFetch, now: Millis) -> Any:
        follower = self.followers.get(fetch.replica)
        if follower is not None:
            follower.end, follower.log_start = Offset(min(fetch.offset, self._log.end_offset)), fetch.log_start
            self._advance()
        return super().fetched(fetch, now)


class TakesAnyAnswer(FollowerState):
    def _takes(self, asked: ReplicaFetch) -> bool:
        if asked is self._open:
            self._open = None
        return True


class PromisesBeforeTheSync(FollowerState):
    def __init__(self, *arguments: Any, durable_only: bool) -> None:
        super().__init__(*arguments, durable_only=False)


class KeepsProducersOfCutBatches(Producers):
    newest = -1

    def observe(self, header: BatchHeader) -> None:
        if header.last_offset > self.newest:
            self.newest = header.last_offset
            super().observe(header)

    def clear(self) -> None:
        pass

    def restore(self, snapshot: bytes) -> bool:
        return True


class NoDeduplication(Producers):
    def check(self, header: BatchHeader) -> Duplicate | Refusal | None:
        return None


class IgnoresBrokerEpochs(ControllerModel):
    def _is_eligible(self, broker: BrokerId, broker_epoch: int) -> bool:
        return self._is_alive(broker)


class Repeats(AlterPartitions):
    """It sends a proposal again until there is an answer, and takes the answer to any copy for the answer."""

    def answered(self, ask: AlterAsk, answer: AlterAnswer | LinkFault) -> list[Settled]:
        if isinstance(answer, LinkFault) and ask is self._open:
            self._open = None
            self._waiting = {**ask.proposals, **self._waiting}
            return []
        return super().answered(ask, answer)


class SeededBug(NamedTuple):
    name: str
    what: str
    setup: Setup
    scenario: str | None = None  # that finds it; None: random histories do


def _leader(leader: type[LeaderState]) -> Setup:
    return Setup(Parts(leader=leader))


def _follower(follower: type[FollowerState], *, durable_only: bool | None = None) -> Setup:
    return Setup(Parts(follower=follower), durable_only=durable_only)


def _waiting(acknowledgements: type[Acknowledgements]) -> Setup:
    return Setup(Parts(acknowledgements=acknowledgements))


def _producers(producers: type[Producers]) -> Setup:
    return Setup(Parts(producers=producers))


SEEDED_BUGS = (
    SeededBug("M1", "a follower cuts its log at its high watermark", Setup(replica=CutsAtHighWatermark)),
    SeededBug("M2", "a leader does not compare epochs", _leader(NoDivergenceCheck)),
    SeededBug(
        "M3",
        "a follower cuts where the leader's epoch ends, not its own",
        _follower(CutsWhereTheLeaderEnds),
        "s3_after_two_fast_elections_the_own_epoch_decides_where_to_cut",
    ),
    SeededBug("M4", "proposed members do not count", _leader(CountsCommittedIsr)),
    SeededBug("M5", "any failed proposal is taken for refused", _leader(TakesFailedForRefused)),
    SeededBug(
        "M6",
        "a refused proposal is never given up",
        _leader(IgnoresRefusals),
        "a_refused_proposal_no_longer_holds_the_high_watermark",
    ),
    SeededBug(
        "M7",
        "followers join without what was there before the term",
        _leader(NoEpochStartRule),
        "s9_a_new_leader_admits_only_followers_with_everything_from_before_its_term",
    ),
    SeededBug("M9", "a broker's own file sets min.insync.replicas", _leader(OwnMinimum)),
    SeededBug("M12", "acks=all is answered before the record is replicated", _waiting(AcknowledgesEarly)),
    SeededBug(
        "M13",
        "waiting producers outlive the term",
        _waiting(OutlivesTheTerm),
        "s8_a_batch_that_was_cut_may_be_written_again",
    ),
    SeededBug("M14", "consumers read past the high watermark", Setup(replica=ShowsUncommitted)),
    SeededBug(
        "M15",
        "a fetch counts before it passes the fences",
        _leader(CountsBeforeFences),
        "s5_a_fetch_of_an_earlier_term_counts_for_nothing",
    ),
    SeededBug(
        "M16",
        "a follower takes an answer to another request",
        _follower(TakesAnyAnswer),
        "s6_an_answer_of_an_earlier_leader_is_dropped",
    ),
    SeededBug(
        "M17",
        "a follower promises records before they are synced",
        _follower(PromisesBeforeTheSync, durable_only=True),
        "a_follower_promises_only_what_it_has_synced",
    ),
    SeededBug(
        "M18a",
        "producers of batches that were cut are remembered",
        _producers(KeepsProducersOfCutBatches),
        "s8_a_batch_that_was_cut_may_be_written_again",
    ),
    SeededBug("M18b", "batches that are sent again are not recognised", _producers(NoDeduplication)),
    SeededBug(
        "M19",
        "the controller does not compare broker epochs",
        Setup(controller=IgnoresBrokerEpochs),
        "s13_a_broker_that_has_lost_its_disk_is_not_taken_for_its_former_self",
    ),
    SeededBug(
        "M20",
        "a proposal is sent again after its answer was lost",
        Setup(altering=Repeats),
        "a_late_proposal_that_is_applied_after_all_does_no_harm",
    ),
)
