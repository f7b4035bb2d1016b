"""The HTML page of the report is one file that starts with the verdict, whatever the evidence contains."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.html import figures, pictures
from seckill.report.html.meanings import MEANINGS
from seckill.report.html.page import render_report
from seckill.report.invariants.registry import INVARIANTS, judge_invariants
from seckill.report.rows import Silence
from seckill.report.selftest.trials import CORRUPTIONS
from seckill.report.traffic import FunnelStage
from seckill.report.verdicts import Verdict
from tests.unit.seckill.report.good_run import UNITS, good_run

ROOT = Path(__file__).parents[4]


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


def test_a_page_in_a_folder_links_each_invariant_to_its_code() -> None:
    run = good_run()
    folder = ROOT / "reports"
    found = Page(render_report(run, judge_invariants(run), folder))
    assert len(found.links) == len(INVARIANTS)
    assert "../seckill/report/invariants/stock.py" in found.links
    assert all(os.path.isfile(os.path.normpath(folder / link)) for link in found.links)
    assert re.search(r"seckill/report/invariants/stock\.py:\d+", "".join(found.texts))


def test_every_invariant_is_explained_in_one_sentence() -> None:
    assert MEANINGS.keys() == {each.name for each in INVARIANTS}
    assert all(re.fullmatch(r"[^.]+\.", text) for text in MEANINGS.values())


def test_what_failed_is_named_first_and_is_unfolded() -> None:
    run = CORRUPTIONS[0].apply(good_run())
    judged = judge_invariants(run)
    failed = {each.invariant.name for each in judged if each.verdict is Verdict.FAIL}
    text = render_report(run, judged)
    assert failed and set(re.findall(r'href="#(I\d+)"', text)) == failed
    assert set(re.findall(r'<details class="invariant" open id="(I\d+)">', text)) == failed
    assert text.index(f'id="{min(failed)}"') < text.index('id="I2"')


def test_an_observed_pause_is_a_numbered_band_and_a_row() -> None:
    run = good_run()
    began_ms = run.attempts[0].at_ms
    paused = replace(run, silences=[Silence("redis", "silent", began_ms + 10, began_ms + 90, "resumed")])
    [row] = figures.fault_rows(paused)
    curves = figures.peak_curves(paused)
    assert curves is not None
    [band] = figures.fault_bands([row], curves)
    assert (row.number, band.name, band.from_s) == (1, "1", 0.01)
    text = "".join(page(paused).texts)
    assert "3 units, 1 observed disturbance: " in text
    assert text.count("redis gave no sign of life, then continued") == 2, "below the picture and in the evidence"
    assert "observed, not planned" in text and "Observed: none." not in text
    assert "Observed: none." in "".join(page(run).texts)


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


def test_numbers_of_neighbouring_bands_do_not_overlap_and_later_ones_find_room_again() -> None:
    curves = figures.PeakCurves(0, 1000, [0.0] * 100, [0.0] * 100, [0.0] * 100, [0] * 100)
    rows = [figures.FaultRow(n, at_ms, at_ms + 500, "x", "", False)
            for n, at_ms in enumerate([10_000, 10_100, 10_200, 10_300, 60_000], 1)]  # fmt: skip
    bands = figures.fault_bands(rows, curves)
    assert [(band.name, band.row) for band in bands] == [("1", 0), ("2", 1), ("3", 2), ("", 0), ("5", 0)]
    assert pictures.peak_chart(curves, bands, None).count("<svg") == 1


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
