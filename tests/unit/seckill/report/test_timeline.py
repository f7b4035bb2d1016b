"""The timeline of a purchase from all sources, and the output for readers, scripts and CI."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from seckill.cli.__main__ import main
from seckill.report import junit, terminal
from seckill.report.evidence_timeline import find_subject, timeline_of
from seckill.report.invariants.registry import judge_invariants
from seckill.report.selftest.trials import CORRUPTIONS
from seckill.report.verdicts import TOOL_FAILED, Subject, Verdict
from tests.unit.seckill.report.good_run import good_run, name


def test_the_timeline_of_a_purchase_goes_from_the_click_to_the_message() -> None:
    steps = timeline_of(good_run(), Subject(name("anna", "first")))
    where = list(dict.fromkeys(step.where.split("/")[0] for step in steps))
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
    assert steps == sorted(steps)
    assert any(step.what == "PENDING_PAYMENT → PAID" for step in steps)


def test_the_timeline_shows_the_trace_id_that_reached_the_sink() -> None:
    run = good_run()
    run.sink_lines[:] = [line._replace(trace_id="abc") for line in run.sink_lines]
    steps = timeline_of(run, Subject(name("anna", "first")))
    assert all(step.what.endswith(", trace abc") for step in steps if step.where == "sink")


def test_request_id_order_id_and_user_name_lead_to_the_same_purchase() -> None:
    run = good_run()
    request = name("bert", "first")
    stories = [
        timeline_of(run, subject)
        for subject in (
            find_subject(run, str(request)),
            find_subject(run, str(run.order_by_request[request].id)),
            find_subject(run, "bert"),
        )
        if subject is not None
    ]
    assert len(stories) == 3
    assert stories[0] == stories[1]
    assert set(stories[0]) <= set(stories[2])


@pytest.mark.parametrize("text", ["nobody", str(name("nothing"))])
def test_an_unknown_id_or_name_has_no_timeline(text: str) -> None:
    assert find_subject(good_run(), text) is None


def shown(corruption: int | None) -> str:
    run = good_run() if corruption is None else CORRUPTIONS[corruption].apply(good_run())
    text = StringIO()
    terminal.print_report(Console(file=text, width=200), run, judge_invariants(run))
    return text.getvalue()


def test_the_terminal_shows_a_violation_with_the_timeline_of_an_example() -> None:
    gone = next(number for number, each in enumerate(CORRUPTIONS) if each.what == "a request is never decided")
    text = shown(gone)
    assert "skipped without a decision or a dead letter" in text
    assert "timeline of request" in text
    assert text.rstrip().splitlines()[-1].startswith("FAIL")


def test_the_terminal_output_ends_with_the_verdict() -> None:
    assert shown(None).rstrip().splitlines()[-1] == "PASS  All 32 invariants hold; 1 not run."


def test_json_has_a_version_every_verdict_and_the_cut() -> None:
    run = good_run()
    said = json.loads(json.dumps(terminal.report_as_json(run, judge_invariants(run))))
    assert said["version"] == terminal.JSON_VERSION
    assert said["verdict"] == Verdict.PASS.value
    assert len(said["invariants"]) == 33
    assert {log["topic"] for log in said["cut"]} == {"purchase.requests", "inventory.decisions", "order.events"}


def test_json_of_a_violation_has_its_timeline() -> None:
    run = CORRUPTIONS[0].apply(good_run())
    said = terminal.report_as_json(run, judge_invariants(run))
    failed = [each for each in said["invariants"] if each["verdict"] == "FAIL"]
    assert failed
    assert any(each["timeline"] for each in failed)


def test_junit_counts_failures_errors_and_skipped_invariants() -> None:
    spoilt = next(each for each in CORRUPTIONS if each.what == "the log of a crowd worker was cut off").apply(
        good_run()
    )
    double = replace(spoilt, decisions=[*spoilt.decisions, spoilt.decisions[0]])
    suite = ElementTree.fromstring(junit.to_junit_xml(judge_invariants(double)))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "33",
        "failures": "1",
        "errors": "6",
        "skipped": "1",
    }
    assert len(suite.findall("testcase/failure")) == 1


@pytest.mark.parametrize("words", [["--nonsense"], ["trace"], ["nonsense"], ["--patience", "long"]])
def test_invalid_arguments_exit_with_the_code_for_a_tool_failure(words: list[str]) -> None:
    assert main(["report", *words]) == TOOL_FAILED
