"""What a verdict follows from: PASS is earned, and nothing is concluded from what is not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import INVARIANTS, judge, judge_one
from seckill.consistency.rows import DeadLetter, Place, Source
from seckill.consistency.verdicts import EXIT_CODES, Found, Invariant, Verdict, overall
from tests.unit.seckill.consistency.good_run import Run, counted, good_run, name


def of(evidence: Evidence, wanted: str) -> Verdict:
    return next(each.verdict for each in judge(evidence) if each.invariant.name == wanted)


def test_a_good_run_passes_every_invariant_that_is_declared() -> None:
    judged = judge(good_run())
    assert {each.invariant.name: each.verdict for each in judged if each.verdict is not Verdict.PASS} == {
        "I22": Verdict.NOT_RUN
    }
    assert overall(judged) is Verdict.PASS
    assert EXIT_CODES[overall(judged)] == 0


def test_all_invariants_are_judged_in_order() -> None:
    assert [invariant.name for invariant in INVARIANTS] == [f"I{number}" for number in range(1, 34)]


def test_nothing_at_all_is_unknown_and_never_a_pass() -> None:
    nothing = Evidence({letter: Source(letter, {}) for letter in "CKRLOPNGSF"}, 0)
    judged = judge(nothing)
    assert {each.verdict for each in judged} == {Verdict.UNKNOWN}
    assert overall(judged) is Verdict.UNKNOWN
    assert overall([]) is Verdict.UNKNOWN
    assert EXIT_CODES[overall(judged)] == 2


@pytest.mark.parametrize("letter", "CKRLOPNG")
def test_each_source_that_is_not_whole_keeps_the_run_from_passing(letter: str) -> None:
    run = good_run()
    for source in (Source(letter, {"rows": 1}, ("cut off",)), Source(letter, {"rows": 0})):
        spoilt = replace(run, sources={**run.sources, letter: source})
        assert overall(judge(spoilt)) is Verdict.UNKNOWN


def test_a_source_that_is_declared_off_is_neutral() -> None:
    run = replace(good_run(), off=frozenset("SN"), sources={**good_run().sources, "N": Source("N", {})})
    assert of(run, "I21") is Verdict.NOT_RUN
    assert overall(judge(run)) is Verdict.PASS


def given_up() -> Evidence:
    """Anna's unit comes back without ever having been ordered, and Bert gets it."""
    run = Run()
    anna, bert, carl, dora = (run.asks(user) for user in ("anna", "bert", "carl", "dora"))
    for request in (anna, bert, carl):
        run.decide(request, "RESERVED", is_ordered=request != anna)
    run.sees(anna, "RESERVED")
    run.decide(dora, "SOLD_OUT")
    run.is_given_up(anna)
    run.sees(anna, "NOT_PLACED")
    emil = run.asks("emil")
    run.decide(emil, "RESERVED")
    return run.end()


def test_a_reservation_that_was_given_up_passes_once_its_units_are_back() -> None:
    run = given_up()
    assert overall(judge(run)) is Verdict.PASS
    with_statistics = counted(run)
    assert of(with_statistics, "I22") is Verdict.PASS


def test_one_whose_units_stay_held_or_of_which_nothing_was_said_does_not() -> None:
    run = given_up()
    [order] = [order for order in run.orders if order.state == "NOT_PLACED"]
    held = [hold._replace(state="reserved") if hold.request_id == order.request_id else hold for hold in run.holds]
    assert of(replace(run, holds=held), "I3") is Verdict.FAIL
    silent = replace(run, orders=[each for each in run.orders if each != order])
    assert of(silent, "I9") is Verdict.FAIL
    promised = [
        sight._replace(state="AWAITING_PAYMENT") if sight.state == "NOT_PLACED" else sight for sight in run.sights
    ]
    assert of(replace(run, sights=promised), "I10") is Verdict.FAIL


def test_an_orphan_whose_money_has_gone_back_is_no_violation() -> None:
    run = good_run()
    captured = next(line for line in run.provider if line.what == "captured")
    lines = [captured._replace(payment_id=name("orphan"), what=what) for what in ("captured", "refunded")]
    known = replace(run, provider=[*run.provider, *lines], orphans=[name("orphan")])
    assert of(known, "I14") is Verdict.PASS
    assert of(replace(known, provider=[*run.provider, lines[0]]), "I14") is Verdict.FAIL
    assert of(replace(known, orphans=[]), "I14") is Verdict.FAIL


def test_what_is_missing_may_still_come_while_something_is_under_way() -> None:
    run = good_run()
    undecided = replace(run, decided=run.decided[:-1])
    assert of(undecided, "I9") is Verdict.FAIL
    assert of(replace(undecided, under_way=("inventory is 1 records behind",)), "I9") is Verdict.UNKNOWN


def test_what_is_wrong_is_wrong_although_something_is_under_way() -> None:
    run = good_run()
    twice = replace(run, decided=[*run.decided, run.decided[0]], under_way=("orders is 1 records behind",))
    assert of(twice, "I9") is Verdict.FAIL


def test_from_a_source_that_is_not_whole_nothing_follows() -> None:
    run = good_run()
    damaged = {**run.sources, "K": Source("K", {"requested": 1}, ("its head is gone",))}
    twice = replace(run, decided=[*run.decided, run.decided[0]], sources=damaged)
    assert of(twice, "I9") is Verdict.UNKNOWN


def test_a_check_that_has_looked_at_nothing_is_unknown() -> None:
    def looks_away(evidence: Evidence, found: Found) -> None:
        pass

    assert judge_one(Invariant("I0", "", ("L",), looks_away), good_run()).verdict is Verdict.UNKNOWN


# ── what looks wrong and is not ──────────────────────────────────────────────────────────────────


def test_a_dead_letter_is_undecided_and_listed_and_that_is_enough() -> None:
    run = good_run()
    request = name("dora", "first")
    said = run.first_requested[request]
    letter = DeadLetter("inventory", "purchase.requests", said.place, "open", "poison", 5_000)
    gone = replace(
        run,
        dead=[letter],
        decided=[row for row in run.decided if row.request_id != request],
        decisions_said=[row for row in run.decisions_said if row.request_id != request],
        decisions_read=[row for row in run.decisions_read if row.request_id != request],
        outcomes=[row for row in run.outcomes if row.request_id != request],
        sights=[row for row in run.sights if row.request_id != request],
        logs=[log._replace(records=log.records - 1) if log.topic == "inventory.decisions" else log for log in run.logs],
    )
    assert {each.invariant.name for each in judge(gone) if each.verdict is Verdict.FAIL} == set()
    assert of(replace(gone, dead=[]), "I9") is Verdict.FAIL


def test_a_dead_letter_that_was_replayed_is_decided_for_its_later_place() -> None:
    run = good_run()
    request = name("dora", "first")
    said = run.first_requested[request]
    again = said._replace(place=Place(0, run.logs[0].cut), timestamp_ms=said.timestamp_ms + 50_000)
    row = run.decision_of[request]
    letter = DeadLetter("inventory", "purchase.requests", said.place, "replayed", "a bug, repaired", 5_000)
    replayed = replace(
        run,
        dead=[letter],
        requested=[*run.requested, again],
        decided=[each._replace(place=again.place) if each is row else each for each in run.decided],
        logs=[
            log._replace(cut=log.cut + 1, records=log.records + 1) if log is run.logs[0] else log for log in run.logs
        ],
        offsets=[
            row._replace(next_offset=row.next_offset + 1) if row.topic == "purchase.requests" else row
            for row in run.offsets
        ],
    )
    assert {each.invariant.name for each in judge(replayed) if each.verdict is Verdict.FAIL} == set()
    assert of(replace(replayed, dead=[]), "I9") is Verdict.FAIL


def test_a_dead_letter_that_is_replayed_in_its_old_place_has_lost_its_turn_and_nobody_is_to_blame() -> None:
    run = good_run()
    late, served = name("dora", "first"), name("carl", "first")
    said, other = run.first_requested[late], run.first_requested[served]
    places = {late: other.place, served: said.place}
    swapped = replace(
        run,
        requested=[each._replace(place=places.get(each.request_id, each.place)) for each in run.requested],
        decided=[each._replace(place=places.get(each.request_id, each.place)) for each in run.decided],
        attempts=[
            each._replace(offset=places[each.request_id].offset) if each.request_id in places else each
            for each in run.attempts
        ],
    )
    early = replace(
        swapped,
        requested=[
            each._replace(timestamp_ms=other.timestamp_ms if each.request_id == late else said.timestamp_ms)
            if each.request_id in places
            else each
            for each in swapped.requested
        ],
    )
    assert of(early, "I17") is Verdict.FAIL
    letter = DeadLetter("inventory", "purchase.requests", other.place, "replayed", "a bug, repaired", 5_000)
    assert of(replace(early, dead=[letter]), "I17") is Verdict.PASS


def test_a_user_whose_slot_was_moved_is_still_in_order() -> None:
    run = good_run()
    later = run.first_requested[name("anna", "second")]
    moved = later._replace(place=Place(7, 0))
    requested = [moved if said is later else said for said in run.requested]
    assert of(replace(run, requested=requested), "I16") is Verdict.PASS
    early = moved._replace(timestamp_ms=0)
    assert of(replace(run, requested=[early if said is moved else said for said in requested]), "I16") is Verdict.FAIL


def test_the_gate_of_a_sale_that_is_over_is_not_asked_for() -> None:
    """Redis may have lost it: nobody asks that gate any more, so it says nothing of the run."""
    run = good_run()
    forgotten = replace(run, gates=[gate._replace(free=None, granted={}) for gate in run.gates])
    assert of(forgotten, "I4") is Verdict.UNKNOWN, "the control: a sale that is on"
    retired = replace(run, gates=[], stocks=[stock._replace(gate_retired=True) for stock in run.stocks])
    assert of(retired, "I4") is Verdict.FAIL, "the control: its sale is not over"
    over = [sale._replace(closes_at_ms=run.taken_at_ms - 1) for sale in run.sales]
    assert of(replace(retired, sales=over), "I4") is Verdict.PASS
