"""The HTML page: one file that says the verdict first, whatever stands in the evidence."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import judge
from seckill.consistency.page import document, figures, pictures
from seckill.consistency.rows import Source
from seckill.consistency.selftest.running import CORRUPTIONS
from tests.unit.seckill.consistency.good_run import UNITS, good_run


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
    return Page(document.written(evidence, judge(evidence)))


def test_the_verdict_comes_first_with_its_numbers() -> None:
    text = "".join(page(good_run()).texts)
    assert "PASS · 5 attempts, 3 units, 0 faults: 32 of 32 invariants hold, 2 sold, 0 oversold" in text


def test_it_needs_nothing_from_anywhere() -> None:
    found = page(good_run())
    assert found.links == []
    assert "script" not in found.tags


def test_a_violation_is_told_with_its_story() -> None:
    text = "".join(page(CORRUPTIONS[0].spoil(good_run())).texts)
    assert "FAIL · " in text
    assert "1 oversold" not in text  # the row is what it was: the ledger alone was spoilt
    assert "the whole story of request" in text


def test_what_buyers_call_themselves_is_text_and_nothing_else() -> None:
    run = good_run()
    evil = "<script>alert(1)</script>"
    twice = [*run.holds, run.holds[0]._replace(user_id=evil), run.holds[0]._replace(user_id=evil)]
    assert "script" not in page(replace(run, holds=twice)).tags


def test_nothing_at_all_makes_a_page_that_says_unknown() -> None:
    nothing = Evidence({letter: Source(letter, {}) for letter in "CKRLOPNGSF"}, 0)
    assert "UNKNOWN · 0 attempts" in "".join(page(nothing).texts)


def test_the_funnel_narrows() -> None:
    counts = dict(figures.funnel(good_run()))
    assert counts["attempts"] == counts["requests in the log"] == 5
    assert (counts["reserved"], counts["paid"]) == (3, 2)


def test_the_backlog_rises_with_arrivals_and_is_worked_off() -> None:
    peak = figures.peak(good_run())
    assert peak is not None
    assert peak.backlog[-1] == 0
    assert sum(peak.decided) * peak.step_ms / 1000 == len(good_run().decided)


def test_the_accounts_of_a_stock_come_to_nothing_together() -> None:
    run = good_run()
    accounts = figures.accounts(run, run.stocks[0])
    assert sum(account.balance for account in accounts) == 0
    assert [account.balance for account in accounts] == [-UNITS, 1, 0, 2]


def test_a_picture_of_nothing_is_a_picture() -> None:
    assert pictures.funnel([]).startswith("<svg")
    assert pictures.peak(figures.Peak(0, 100, [0.0], [0.0], [0.0], [0]), [], None).startswith("<svg")
