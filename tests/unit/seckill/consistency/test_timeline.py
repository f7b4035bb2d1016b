"""One story out of all sources; and what a reader is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from seckill.consistency import command, junit, show, timeline
from seckill.consistency.invariants.judging import judge
from seckill.consistency.selftest.running import CORRUPTIONS
from seckill.consistency.verdicts import TOOL_FAILED, Subject, Verdict
from tests.unit.seckill.consistency.good_run import good_run, name


def test_a_purchase_is_told_from_the_click_to_the_message() -> None:
    moments = timeline.of(good_run(), Subject(name("anna", "first")))
    where = list(dict.fromkeys(moment.where.split("-")[0] for moment in moments))
    assert where[:7] == [
        "client",
        "purchase.requests",
        "decision",
        "ledger",
        "inventory.decisions",
        "order",
        "order.events",
    ]
    assert {"payment", "provider", "delivery", "sink"} <= set(where)
    assert moments == sorted(moments)
    assert any(moment.what == "PENDING_PAYMENT → PAID" for moment in moments)


def test_the_trace_that_came_to_the_sink_is_told() -> None:
    run = good_run()
    run.sink[:] = [line._replace(trace_id="abc") for line in run.sink]
    moments = timeline.of(run, Subject(name("anna", "first")))
    assert all(moment.what.endswith(", trace abc") for moment in moments if moment.where == "sink")


def test_request_order_and_user_lead_to_the_same_purchase() -> None:
    run = good_run()
    request = name("bert", "first")
    stories = [
        timeline.of(run, subject)
        for subject in (
            timeline.find(run, str(request)),
            timeline.find(run, str(run.order_of[request].id)),
            timeline.find(run, "bert"),
        )
        if subject is not None
    ]
    assert len(stories) == 3
    assert stories[0] == stories[1]
    assert set(stories[0]) <= set(stories[2])


@pytest.mark.parametrize("text", ["nobody", str(name("nothing"))])
def test_nobody_has_no_story(text: str) -> None:
    assert timeline.find(good_run(), text) is None


def shown(corruption: int | None) -> str:
    run = good_run() if corruption is None else CORRUPTIONS[corruption].spoil(good_run())
    text = StringIO()
    show.as_table(Console(file=text, width=200), run, judge(run))
    return text.getvalue()


def test_a_violation_is_shown_with_the_whole_story_of_an_example() -> None:
    gone = next(number for number, each in enumerate(CORRUPTIONS) if each.what == "a request is never decided")
    text = shown(gone)
    assert "never decided, and no dead letter" in text
    assert "the whole story of request" in text
    assert text.rstrip().splitlines()[-1].startswith("FAIL")


def test_a_good_run_is_shown_in_a_table_and_ends_in_its_verdict() -> None:
    assert shown(None).rstrip().splitlines()[-1] == "PASS  32 PASS, 1 NOT RUN"


def test_json_has_a_version_every_verdict_and_the_cut() -> None:
    run = good_run()
    said = json.loads(json.dumps(show.as_json(run, judge(run))))
    assert said["version"] == show.JSON_VERSION
    assert said["verdict"] == Verdict.PASS.value
    assert len(said["invariants"]) == 33
    assert {log["topic"] for log in said["cut"]} == {"purchase.requests", "inventory.decisions", "order.events"}


def test_json_of_a_violation_has_its_timeline() -> None:
    run = CORRUPTIONS[0].spoil(good_run())
    said = show.as_json(run, judge(run))
    failed = [each for each in said["invariants"] if each["verdict"] == "FAIL"]
    assert failed
    assert any(each["timeline"] for each in failed)


def test_junit_counts_what_failed_what_proved_nothing_and_what_did_not_run() -> None:
    spoilt = next(each for each in CORRUPTIONS if each.what == "a worker's log was cut off").spoil(good_run())
    double = replace(spoilt, decided=[*spoilt.decided, spoilt.decided[0]])
    suite = ElementTree.fromstring(junit.written(judge(double)))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "33",
        "failures": "1",
        "errors": "6",
        "skipped": "1",
    }
    assert len(suite.findall("testcase/failure")) == 1


@pytest.mark.parametrize("words", [["--nonsense"], ["trace"], ["nonsense"], ["--patience", "long"]])
def test_a_wrong_call_is_no_verdict(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == TOOL_FAILED
