"""Corruptions of refusals: a request was refused for a false reason on which all sources agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from seckill.report.disturbances import find_disturbances
from seckill.report.evidence import Evidence
from seckill.report.invariants.outages import AFTERMATH_MS
from seckill.report.invariants.refusal_reasons import MOVING
from seckill.report.rows import Attempt, Decision
from seckill.report.selftest.corruptions import NothingToCorrupt, corruption, first, with_fields, with_replaced

# ── I28: refusals of inventory ───────────────────────────────────────────────────────────────────


def _decided(evidence: Evidence, row: Decision, decision: str) -> Evidence:
    """All sources agree on this decision."""
    return replace(
        evidence,
        decisions=with_replaced(evidence.decisions, row, row._replace(decision=decision)),
        decision_events=with_fields(
            evidence.decision_events,
            lambda record: record.request_id == row.request_id and record.decision == row.decision,
            decision=decision,
        ),
        consumed_decisions=with_fields(
            evidence.consumed_decisions, lambda read: read.request_id == row.request_id, decision=decision
        ),
        outcomes=with_fields(evidence.outcomes, lambda shown: shown.request_id == row.request_id, state=decision),
        polls=with_fields(
            evidence.polls,
            lambda poll: poll.request_id == row.request_id and poll.state == row.decision,
            state=decision,
        ),
    )


def _falsely(decision: str) -> Callable[[Evidence], Evidence]:
    def corrupt(evidence: Evidence) -> Evidence:
        is_open = {sale.id for sale in evidence.sales if sale.state != "closed"}
        counts = Counter((row.sale_id, row.user_id) for row in evidence.decisions)
        row = first(
            evidence.decisions,
            lambda row: row.decision == "SOLD_OUT" and row.sale_id in is_open and counts[row.sale_id, row.user_id] == 1,
        )
        return _decided(evidence, row, decision)

    return corrupt


for _decision, _what in {
    "CLOSED": "CLOSED in a sale that is open",
    "DUPLICATE": "DUPLICATE for a user without another purchase",
    "LIMIT_REACHED": "LIMIT_REACHED for a quantity within the cap",
    "INVALID": "INVALID for a request that is valid",
}.items():
    corruption("I28", _what)(_falsely(_decision))


# ── I29: refusals of the gateway ─────────────────────────────────────────────────────────────────


def _refused(evidence: Evidence, status: int, problem: str) -> Evidence:
    """One more attempt, which is refused while units are available."""
    if problem == "queue-moving" and any(verb.verb.startswith(MOVING) for verb in evidence.operator_actions):
        raise NothingToCorrupt
    touched = {verb.target for verb in evidence.operator_actions}
    stock = first(
        evidence.stocks,
        lambda stock: bool(evidence.entries_by_stock.get(stock.id)) and f"sale {stock.sale_id}" not in touched,
    )
    declared = evidence.entries_by_stock[stock.id][0]
    sale = first(evidence.sales, lambda sale: sale.id == stock.sale_id)
    at_ms = max(declared.at_ms, sale.opens_at_ms) + 6_000
    if problem == "too-many-requests":  # during a rush all attempts together may exceed the limit of one address
        at_ms = max(attempt.at_ms for attempt in evidence.attempts) + 60_000
    refused = Attempt(
        at_ms,
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
    corruption("I29", f"the gateway answers {_status} {_problem or 'without a reason'} although it is not true")(
        lambda evidence, status=_status, problem=_problem: _refused(evidence, status, problem)  # type: ignore[misc]
    )


@corruption("I29", "every purchase is refused for a minute without a fault")
def unexplained_outage(evidence: Evidence) -> Evidence:
    """Long enough after the last fault that none explains it."""
    end = max(attempt.at_ms + attempt.took_ms for attempt in evidence.attempts)
    faults = [int(line.get("until_ms", line.get("at_ms", 0))) for line in evidence.injected_faults]
    faults += [each.until_ms or each.at_ms for each in find_disturbances(evidence)]
    end = max([end, *(at_ms + AFTERMATH_MS for at_ms in faults)])
    away = [
        Attempt(
            end + 1_000 * number, 5, f"away-{number}", "first", 0, 1, 503, None, None, None, problem="queue-unavailable"
        )
        for number in range(1, 60)
    ]
    return replace(evidence, attempts=[*evidence.attempts, *away])


@corruption("I10", "an accepted purchase is unknown to its owner at every poll")
def unknown_to_its_owner(evidence: Evidence) -> Evidence:
    poll = first(evidence.polls, lambda poll: poll.status == 200)
    return replace(
        evidence,
        polls=with_fields(
            evidence.polls,
            lambda each: each.request_id == poll.request_id,
            status=404,
            state="",
            order_id=None,
        ),
    )
