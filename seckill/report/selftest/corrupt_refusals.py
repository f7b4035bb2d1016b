"""Corruptions of refusals: a buyer was sent away, and everybody agrees on a reason that is not true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.gateway_refusals import MOVING
from seckill.consistency.invariants.outages import AFTERMATH_MS
from seckill.consistency.observed import disturbances
from seckill.consistency.rows import Attempt, Decided
from seckill.consistency.selftest.spoiling import NoMaterial, changed, corruption, first, instead

# ── I28: refusals of inventory ───────────────────────────────────────────────────────────────────


def _decided(evidence: Evidence, row: Decided, decision: str) -> Evidence:
    """Everybody agrees that this is what was decided."""
    return replace(
        evidence,
        decided=instead(evidence.decided, row, row._replace(decision=decision)),
        decisions_said=changed(
            evidence.decisions_said,
            lambda said: said.request_id == row.request_id and said.decision == row.decision,
            decision=decision,
        ),
        decisions_read=changed(
            evidence.decisions_read, lambda read: read.request_id == row.request_id, decision=decision
        ),
        outcomes=changed(evidence.outcomes, lambda shown: shown.request_id == row.request_id, state=decision),
        sights=changed(
            evidence.sights,
            lambda sight: sight.request_id == row.request_id and sight.state == row.decision,
            state=decision,
        ),
    )


def _falsely(decision: str) -> Callable[[Evidence], Evidence]:
    def spoil(evidence: Evidence) -> Evidence:
        is_open = {sale.id for sale in evidence.sales if sale.state != "closed"}
        asked = Counter((row.sale_id, row.user_id) for row in evidence.decided)
        row = first(
            evidence.decided,
            lambda row: row.decision == "SOLD_OUT" and row.sale_id in is_open and asked[row.sale_id, row.user_id] == 1,
        )
        return _decided(evidence, row, decision)

    return spoil


for _decision, _what in {
    "CLOSED": "CLOSED in a sale that is open",
    "DUPLICATE": "DUPLICATE for a user without another purchase",
    "LIMIT_REACHED": "LIMIT_REACHED for a quantity within the cap",
    "INVALID": "INVALID for a request that is valid",
}.items():
    corruption("I28", _what)(_falsely(_decision))


# ── I29: refusals of the gateway ─────────────────────────────────────────────────────────────────


def _turned_away(evidence: Evidence, status: int, problem: str) -> Evidence:
    """One buyer more, who is turned away while units are free."""
    if problem == "queue-moving" and any(verb.verb.startswith(MOVING) for verb in evidence.verbs):
        raise NoMaterial
    touched = {verb.target for verb in evidence.verbs}
    stock = first(
        evidence.stocks,
        lambda stock: bool(evidence.entries.get(stock.id)) and f"sale {stock.sale_id}" not in touched,
    )
    declared = evidence.entries[stock.id][0]
    sale = first(evidence.sales, lambda sale: sale.id == stock.sale_id)
    refused = Attempt(
        max(declared.at_ms, sale.opens_at_ms) + 6_000,
        5,
        "away",
        "first",
        sale.id,
        1,
        status,
        None,
        None,
        None,
        problem=problem,
        ticket="f00",
        stock_version=1 if problem == "sold-out" else None,
    )
    return replace(evidence, attempts=[*evidence.attempts, refused])


for _status, _problem in (
    (409, "sold-out"),
    (410, "sale-closed"),
    (404, "no-such-sale"),
    (403, "not-open-yet"),
    (403, "ticket-missing"),
    (429, "too-many-requests"),
    (422, "key-reused"),
    (409, "ticket-spent"),
    (503, "sale-paused"),
    (503, "queue-moving"),
    (409, ""),
):
    corruption("I29", f"the gateway answers {_status} {_problem or 'without a reason'}, and it is not so")(
        lambda evidence, status=_status, problem=_problem: _turned_away(evidence, status, problem)  # type: ignore[misc]
    )


@corruption("I29", "nobody is let in any more, and nothing is broken")
def shut_for_ever(evidence: Evidence) -> Evidence:
    """So long after the last fault that none explains it."""
    end = max(attempt.at_ms + attempt.took_ms for attempt in evidence.attempts)
    faults = [int(line.get("until_ms", line.get("at_ms", 0))) for line in evidence.injected]
    faults += [each.until_ms or each.at_ms for each in disturbances(evidence)]
    end = max([end, *(at_ms + AFTERMATH_MS for at_ms in faults)])
    away = [
        Attempt(
            end + 1_000 * number, 5, f"away-{number}", "first", 0, 1, 503, None, None, None, problem="queue-unavailable"
        )
        for number in range(1, 60)
    ]
    return replace(evidence, attempts=[*evidence.attempts, *away])


@corruption("I10", "a purchase is accepted, and then unknown to its owner at every poll")
def unknown_to_its_owner(evidence: Evidence) -> Evidence:
    sight = first(evidence.sights, lambda sight: sight.status == 200)
    return replace(
        evidence,
        sights=changed(
            evidence.sights,
            lambda each: each.request_id == sight.request_id,
            status=404,
            state="",
            order_id=None,
        ),
    )
