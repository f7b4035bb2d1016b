"""Lab 12. A good run is corrupted in many ways, one at a time. Broken: a check that compares totals. Fixed: the
report's invariants. A corruption that goes unnoticed is damage: a checker that cannot fail proves nothing."""

from __future__ import annotations

import pickle  # nosec B403  # the file is our own
from collections import Counter
from pathlib import Path

from seckill.lab.lab_stack import ExperimentFailed, LabStack
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.report import manifest
from seckill.report.evidence import Evidence
from seckill.report.invariants.registry import judge_invariants
from seckill.report.selftest.corruptions import NothingToCorrupt
from seckill.report.selftest.trials import CORRUPTIONS
from seckill.report.sources.collect import Addresses, collect
from seckill.report.verdicts import Verdict, overall_verdict

UNITS, BUYERS = 40, 150
PAYMENT_TTL_S = 5
SETTLE_SECONDS_MAX = 90.0


def totals_balance(evidence: Evidence) -> bool:
    """What most systems check, if they check anything: nothing oversold, and as many orders as units that were sold."""
    states = Counter(order.state for order in evidence.orders)
    holds = Counter(hold.state for hold in evidence.holds)
    sold_by_stock = sum(stock.sold for stock in evidence.stocks)
    units = sum(stock.available + stock.reserved + stock.sold for stock in evidence.stocks)
    declared = sum(stock.declared for stock in evidence.stocks)
    return units == declared and sold_by_stock == states["PAID"] == holds["sold"] <= declared


def report_passes(evidence: Evidence) -> bool:
    return overall_verdict(judge_invariants(evidence)) is Verdict.PASS


def run(step: Step, variant: Variant) -> Observation:
    evidence = _good_run(step)
    passes = totals_balance if variant is Variant.BROKEN else report_passes
    if not passes(evidence):
        raise ExperimentFailed(f"the good run does not pass; see {step.folder}")
    tried, unnoticed = 0, []
    for corruption in CORRUPTIONS:
        try:
            corrupted = corruption.apply(evidence)
        except NothingToCorrupt:
            continue
        tried += 1
        if passes(corrupted):
            unnoticed.append(f"{corruption.invariant}: {corruption.what}")
    for line in unnoticed[:5]:
        step.tell(f"unnoticed: {line}")
    bars = (
        Bar("corruptions", tried),
        Bar("noticed", tried - len(unnoticed)),
        Bar("unnoticed", len(unnoticed), True),
    )
    return Observation(
        len(unnoticed),
        {"requests in the run": len(evidence.requests), "corruptions tried": tried, "unnoticed": len(unnoticed)},
        Chart(y="corruptions of one good run", bars=bars),
    )


def _good_run(step: Step) -> Evidence:
    """The evidence of a small sale on a whole stack. Both variants examine the same one."""
    saved = step.folder.parent / "good-run.pickle"
    if not saved.exists():
        saved.write_bytes(pickle.dumps(_run_sale(step, step.folder.parent / "stack")))
    found: Evidence = pickle.loads(saved.read_bytes())  # nosec B301  # this lab has just written it
    return found


def _run_sale(step: Step, folder: Path) -> Evidence:
    stack = LabStack(folder, {}, PAYMENT_TTL_S)
    try:
        step.tell("a whole stack starts …")
        stack.start()
        stack.evidence_folder.declare()
        sale = stack.create_sale(UNITS, price=9900)
        step.tell(f"{BUYERS} buyers for {UNITS} units …")
        stack.run(
            "loadtest.rush", "--url", stack.gateway, "--sale", str(sale), "--buyers", str(BUYERS), "--over", "2",
            "--log", str(stack.evidence / "rush.jsonl"), "--greedy", "0.3",
        )  # fmt: skip
        stack.wait_until(lambda: not stack.database.unsettled(), "the sale to settle", SETTLE_SECONDS_MAX)
        known = stack.addresses()
        where = Addresses(
            known["KAFKA_BOOTSTRAP_SERVERS"], known["SECKILL_DATABASE_URL"], known["SECKILL_GATE_REDIS_URL"],
            stack.folder / "sandbox",
        )  # fmt: skip
        return collect(where, manifest.read_manifest(stack.evidence), SETTLE_SECONDS_MAX, lambda text: None)
    finally:
        stack.stop()
