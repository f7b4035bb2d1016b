"""The HTML page of the report is one file that starts with the verdict, whatever the evidence contains."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.html import figures, pictures
from seckill.report.html.page import render_report
from seckill.report.invariants.registry import judge_invariants
from seckill.report.selftest.trials import CORRUPTIONS
from seckill.report.traffic import FunnelStage
from tests.unit.seckill.report.good_run import UNITS, good_run


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page(evidence: Evidence) -> Page:
    return Page(render_report(evidence, judge_invariants(evidence)))


def test_the_verdict_comes_first_with_its_numbers() -> None:
    text = "".join(page(good_run()).texts)
    assert "PASS · 5 attempts, 3 units, 0 faults: 32 of 32 invariants hold, 2 sold, 0 oversold" in text


def test_the_page_loads_nothing_from_the_network() -> None:
    found = page(good_run())
    assert found.links == []
    assert "script" not in found.tags


def test_a_violation_is_shown_with_the_timeline_of_an_example() -> None:
    text = "".join(page(CORRUPTIONS[0].apply(good_run())).texts)
    assert "FAIL · " in text
    assert "1 oversold" not in text  # the stock row is unchanged; only the ledger was corrupted
    assert "Timeline of request" in text


def test_user_names_are_escaped() -> None:
    run = good_run()
    evil = "<script>alert(1)</script>"
    twice = [*run.holds, run.holds[0]._replace(user_id=evil), run.holds[0]._replace(user_id=evil)]
    assert "script" not in page(replace(run, holds=twice)).tags


def test_a_run_without_evidence_makes_a_page_that_says_unknown() -> None:
    nothing = Evidence({source: SourceStatus(source, {}) for source in Source}, 0)
    assert "UNKNOWN · 0 attempts" in "".join(page(nothing).texts)


def test_the_funnel_narrows() -> None:
    counts = dict(figures.purchase_funnel(good_run()))
    assert counts[FunnelStage.ATTEMPTED] == counts[FunnelStage.REQUESTED] == 5
    assert (counts[FunnelStage.RESERVED], counts[FunnelStage.PAID]) == (3, 2)


def test_the_backlog_rises_with_arrivals_and_is_worked_off() -> None:
    peak = figures.peak_curves(good_run())
    assert peak is not None
    assert peak.backlog[-1] == 0
    assert sum(peak.decided) * peak.step_ms / 1000 == len(good_run().decisions)


def test_the_account_balances_of_a_stock_add_up_to_zero() -> None:
    run = good_run()
    accounts = figures.ledger_accounts(run, run.stocks[0])
    assert sum(account.balance for account in accounts) == 0
    assert [account.balance for account in accounts] == [-UNITS, 1, 0, 2]


def test_charts_without_data_can_be_drawn() -> None:
    assert pictures.funnel_chart([]).startswith("<svg")
    assert pictures.peak_chart(figures.PeakCurves(0, 100, [0.0], [0.0], [0.0], [0]), [], None).startswith("<svg")
