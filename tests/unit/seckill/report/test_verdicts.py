"""How findings lead to a verdict: PASS needs complete evidence, and missing evidence proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.invariants.registry import INVARIANTS, judge_invariant, judge_invariants
from seckill.report.rows import DeadLetter, RecordPosition
from seckill.report.verdicts import EXIT_CODES, Findings, Invariant, Verdict, overall_verdict
from tests.unit.seckill.report.good_run import Run, good_run, name
from tests.unit.seckill.report.spark_tables import with_statistics


def of(evidence: Evidence, wanted: str) -> Verdict:
    return next(each.verdict for each in judge_invariants(evidence) if each.invariant.name == wanted)


def test_a_good_run_passes_every_invariant_that_is_not_off() -> None:
    judged = judge_invariants(good_run())
    assert {each.invariant.name: each.verdict for each in judged if each.verdict is not Verdict.PASS} == {
        "I22": Verdict.NOT_RUN
    }
    assert overall_verdict(judged) is Verdict.PASS
    assert EXIT_CODES[overall_verdict(judged)] == 0


def test_all_invariants_are_judged_in_order() -> None:
    assert [invariant.name for invariant in INVARIANTS] == [f"I{number}" for number in range(1, 34)]


def test_a_run_without_evidence_is_unknown() -> None:
    nothing = Evidence({source: SourceStatus(source, {}) for source in Source}, 0)
    judged = judge_invariants(nothing)
    assert {each.verdict for each in judged} == {Verdict.UNKNOWN}
    assert overall_verdict(judged) is Verdict.UNKNOWN
    assert overall_verdict([]) is Verdict.UNKNOWN
    assert EXIT_CODES[overall_verdict(judged)] == 2


@pytest.mark.parametrize("source", sorted(set(Source) - {Source.STATISTICS, Source.FAULTS}))
def test_a_run_with_an_incomplete_source_does_not_pass(source: Source) -> None:
    run = good_run()
    for status in (SourceStatus(source, {"rows": 1}, ("cut off",)), SourceStatus(source, {"rows": 0})):
        spoilt = replace(run, sources={**run.sources, source: status})
        assert overall_verdict(judge_invariants(spoilt)) is Verdict.UNKNOWN


def test_a_source_that_is_declared_off_does_not_change_the_verdict() -> None:
    run = replace(
        good_run(),
        declared_off=frozenset({Source.STATISTICS, Source.MESSAGES}),
        sources={**good_run().sources, Source.MESSAGES: SourceStatus(Source.MESSAGES, {})},
    )
    assert of(run, "I21") is Verdict.NOT_RUN
    assert overall_verdict(judge_invariants(run)) is Verdict.PASS


def given_up() -> Evidence:
    """Anna's unit is returned without an order, and Emil gets it."""
    run = Run()
    anna, bert, carl, dora = (run.send_request(user) for user in ("anna", "bert", "carl", "dora"))
    for request in (anna, bert, carl):
        run.decide(request, "RESERVED", is_ordered=request != anna)
    run.poll(anna, "RESERVED")
    run.decide(dora, "SOLD_OUT")
    run.give_up(anna)
    run.poll(anna, "NOT_PLACED")
    emil = run.send_request("emil")
    run.decide(emil, "RESERVED")
    return run.finish()


def test_a_discarded_reservation_passes_once_its_units_are_returned() -> None:
    run = given_up()
    assert overall_verdict(judge_invariants(run)) is Verdict.PASS
    counted = with_statistics(run)
    assert of(counted, "I22") is Verdict.PASS


def test_a_discarded_reservation_fails_if_its_units_stay_held_or_it_is_never_published() -> None:
    run = given_up()
    [order] = [order for order in run.orders if order.state == "NOT_PLACED"]
    held = [hold._replace(state="reserved") if hold.request_id == order.request_id else hold for hold in run.holds]
    assert of(replace(run, holds=held), "I3") is Verdict.FAIL
    silent = replace(run, orders=[each for each in run.orders if each != order])
    assert of(silent, "I9") is Verdict.FAIL
    promised = [
        sight._replace(state="AWAITING_PAYMENT") if sight.state == "NOT_PLACED" else sight for sight in run.polls
    ]
    assert of(replace(run, polls=promised), "I10") is Verdict.FAIL


def test_an_orphan_payment_that_was_refunded_is_allowed() -> None:
    run = good_run()
    captured = next(line for line in run.provider_lines if line.what == "captured")
    lines = [captured._replace(payment_id=name("orphan"), what=what) for what in ("captured", "refunded")]
    known = replace(run, provider_lines=[*run.provider_lines, *lines], orphan_payments=[name("orphan")])
    assert of(known, "I14") is Verdict.PASS
    assert of(replace(known, provider_lines=[*run.provider_lines, lines[0]]), "I14") is Verdict.FAIL
    assert of(replace(known, orphan_payments=[]), "I14") is Verdict.FAIL


def test_something_missing_is_unknown_while_work_is_in_flight() -> None:
    run = good_run()
    undecided = replace(run, decisions=run.decisions[:-1])
    assert of(undecided, "I9") is Verdict.FAIL
    assert of(replace(undecided, unfinished=("inventory is 1 records behind",)), "I9") is Verdict.UNKNOWN


def test_a_violation_fails_even_while_work_is_in_flight() -> None:
    run = good_run()
    twice = replace(run, decisions=[*run.decisions, run.decisions[0]], unfinished=("orders is 1 records behind",))
    assert of(twice, "I9") is Verdict.FAIL


def test_a_violation_in_an_incomplete_source_is_unknown() -> None:
    run = good_run()
    damaged = {**run.sources, Source.TOPICS: SourceStatus(Source.TOPICS, {"requests": 1}, ("its head is gone",))}
    twice = replace(run, decisions=[*run.decisions, run.decisions[0]], sources=damaged)
    assert of(twice, "I9") is Verdict.UNKNOWN


def test_a_check_that_checked_nothing_is_unknown() -> None:
    def looks_away(evidence: Evidence, found: Findings) -> None:
        pass

    assert judge_invariant(Invariant("I0", "", (Source.STOCK,), looks_away), good_run()).verdict is Verdict.UNKNOWN


# ── what looks wrong but is allowed ──────────────────────────────────────────────────────────────────


def test_a_request_among_the_dead_letters_needs_no_decision() -> None:
    run = good_run()
    request = name("dora", "first")
    record = run.first_request_by_id[request]
    letter = DeadLetter("inventory", "purchase.requests", record.position, "open", "poison", 5_000)
    gone = replace(
        run,
        dead_letters=[letter],
        decisions=[row for row in run.decisions if row.request_id != request],
        decision_events=[row for row in run.decision_events if row.request_id != request],
        consumed_decisions=[row for row in run.consumed_decisions if row.request_id != request],
        outcomes=[row for row in run.outcomes if row.request_id != request],
        polls=[row for row in run.polls if row.request_id != request],
        partition_logs=[
            log._replace(records=log.records - 1) if log.topic == "inventory.decisions" else log
            for log in run.partition_logs
        ],
    )
    assert {each.invariant.name for each in judge_invariants(gone) if each.verdict is Verdict.FAIL} == set()
    assert of(replace(gone, dead_letters=[]), "I9") is Verdict.FAIL


def test_a_replayed_dead_letter_is_decided_at_its_later_position() -> None:
    run = good_run()
    request = name("dora", "first")
    record = run.first_request_by_id[request]
    again = record._replace(
        position=RecordPosition("purchase.requests", 0, run.partition_logs[0].cut),
        timestamp_ms=record.timestamp_ms + 50_000,
    )
    row = run.decision_by_request[request]
    letter = DeadLetter("inventory", "purchase.requests", record.position, "replayed", "a bug that was fixed", 5_000)
    replayed = replace(
        run,
        dead_letters=[letter],
        requests=[*run.requests, again],
        decisions=[each._replace(position=again.position) if each is row else each for each in run.decisions],
        partition_logs=[
            log._replace(cut=log.cut + 1, records=log.records + 1) if log is run.partition_logs[0] else log
            for log in run.partition_logs
        ],
        group_offsets=[
            row._replace(next_offset=row.next_offset + 1) if row.topic == "purchase.requests" else row
            for row in run.group_offsets
        ],
    )
    assert {each.invariant.name for each in judge_invariants(replayed) if each.verdict is Verdict.FAIL} == set()
    assert of(replace(replayed, dead_letters=[]), "I9") is Verdict.FAIL


def test_a_replayed_dead_letter_may_be_served_after_later_requests() -> None:
    run = good_run()
    late, served = name("dora", "first"), name("carl", "first")
    record, other = run.first_request_by_id[late], run.first_request_by_id[served]
    places = {late: other.position, served: record.position}
    swapped = replace(
        run,
        requests=[each._replace(position=places.get(each.request_id, each.position)) for each in run.requests],
        decisions=[each._replace(position=places.get(each.request_id, each.position)) for each in run.decisions],
        attempts=[
            each._replace(offset=places[each.request_id].offset) if each.request_id in places else each
            for each in run.attempts
        ],
    )
    early = replace(
        swapped,
        requests=[
            each._replace(timestamp_ms=other.timestamp_ms if each.request_id == late else record.timestamp_ms)
            if each.request_id in places
            else each
            for each in swapped.requests
        ],
    )
    assert of(early, "I17") is Verdict.FAIL
    letter = DeadLetter("inventory", "purchase.requests", other.position, "replayed", "a bug that was fixed", 5_000)
    assert of(replace(early, dead_letters=[letter]), "I17") is Verdict.PASS


def test_requests_of_a_moved_user_are_ordered_by_time() -> None:
    run = good_run()
    later = run.first_request_by_id[name("anna", "second")]
    moved = later._replace(position=RecordPosition("purchase.requests", 7, 0))
    requested = [moved if record is later else record for record in run.requests]
    assert of(replace(run, requests=requested), "I16") is Verdict.PASS
    early = moved._replace(timestamp_ms=0)
    assert (
        of(replace(run, requests=[early if record is moved else record for record in requested]), "I16") is Verdict.FAIL
    )


def test_a_retired_gate_is_allowed_only_after_the_sale() -> None:
    """Redis may have lost the gate of a sale that is over, because it is no longer used."""
    run = good_run()
    forgotten = replace(run, gates=[gate._replace(free=None, granted={}) for gate in run.gates])
    assert of(forgotten, "I4") is Verdict.UNKNOWN, "the control: a sale that is running"
    retired = replace(run, gates=[], stocks=[stock._replace(gate_retired=True) for stock in run.stocks])
    assert of(retired, "I4") is Verdict.FAIL, "the control: its sale is not over"
    over = [sale._replace(closes_at_ms=run.taken_at_ms - 1) for sale in run.sales]
    assert of(replace(retired, sales=over), "I4") is Verdict.PASS
