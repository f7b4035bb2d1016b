"""The queue of reports: one waits, one is made, and a worker that dies blocks nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.db.models.functions import Now

from seckill.console.models import Report, Silence
from seckill.console.reports import queue
from seckill.console.reports.worker import ReportWorker

MAKES_A_REPORT = """
import json, pathlib, sys
result, page = map(pathlib.Path, sys.argv[1:])
result.write_text(json.dumps({"verdict": "PASS", "invariants": [{"verdict": "PASS"}, {"verdict": "NOT RUN"}]}))
page.write_text("<h1>the books</h1>")
"""
FAILS = "print('no broker answers'); raise SystemExit(3)"
SLEEPS = "import time; time.sleep(600)"
NEEDS_MEMORY = "import time; taken = bytearray(64 << 20); time.sleep(600)"
DIES = "import os; os.kill(os.getpid(), 9)"


class ScriptedWorker(ReportWorker):
    """It runs this program instead of `seckill report`."""

    program = MAKES_A_REPORT

    def command(self, result: Path, page: Path) -> list[str]:
        return [sys.executable, "-c", self.program, str(result), str(page)]


def worker(program: str, **limits: float) -> ScriptedWorker:
    made = ScriptedWorker(Path("/nowhere"), **limits)  # type: ignore[arg-type]
    made.program = program
    return made


def states() -> list[str]:
    return list(Report.objects.order_by("id").values_list("state", flat=True))


def test_a_report_is_made_and_its_page_is_kept() -> None:
    assert queue.request_report("olga") is not None
    worker(MAKES_A_REPORT).run_once()
    report = Report.objects.get()
    assert (report.state, report.verdict, report.counts) == ("done", "PASS", {"PASS": 1, "NOT RUN": 1})
    assert (report.html, report.requested_by) == ("<h1>the books</h1>", "olga")
    assert report.requested_at <= report.started_at <= report.ended_at  # type: ignore[operator]


def test_without_an_order_nothing_is_made() -> None:
    worker(MAKES_A_REPORT).run_once()
    assert states() == []


def test_a_second_order_is_refused_while_one_is_queued_and_accepted_while_one_is_made() -> None:
    assert queue.request_report("olga") is not None
    assert queue.request_report("rita") is None
    assert queue.claim_report() is not None
    assert queue.request_report("rita") is not None
    assert queue.request_report("olga") is None
    assert states() == ["running", "queued"]


def test_of_many_workers_one_makes_the_report() -> None:
    queue.request_report("olga")
    claimed, together = list[Report | None](), Barrier(8)

    def claim() -> None:
        together.wait()
        claimed.append(queue.claim_report())
        connection.close()

    threads = [Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in claimed) == 1


def test_the_next_report_waits_until_the_running_one_has_ended() -> None:
    queue.request_report("olga")
    running = queue.claim_report()
    queue.request_report("rita")
    assert running is not None and queue.claim_report() is None
    queue.finish_report(running, "PASS", {}, "")
    assert queue.claim_report() is not None


def test_the_report_of_a_worker_that_died_is_lost_and_the_next_one_is_made() -> None:
    queue.request_report("olga")
    lost = queue.claim_report()
    queue.request_report("rita")
    Report.objects.filter(state="running").update(lease_until=Now())  # as if the worker had not extended it
    worker(MAKES_A_REPORT).run_once()
    assert states() == ["lost", "done"]
    assert lost is not None and not queue.extend_lease(lost), "a worker that comes back gives up"
    assert not queue.finish_report(lost, "PASS", {}, "") and states() == ["lost", "done"]


@pytest.mark.parametrize(
    ("program", "limits", "reason"),
    [
        (FAILS, {}, "no broker answers"),
        (DIES, {}, "killed by signal 9"),
        (SLEEPS, {"seconds_max": 0.1}, "not finished after"),
        (NEEDS_MEMORY, {"bytes_max": 48 << 20}, "48 MB are allowed"),
        ("", {}, "exit code 0"),
    ],
)
def test_a_report_that_cannot_be_made_says_why(program: str, limits: dict[str, float], reason: str) -> None:
    queue.request_report("olga")
    worker(program, **limits).run_once()
    report = Report.objects.get()
    assert report.state == "failed" and reason in report.error
    assert queue.request_report("olga") is not None, "it does not block the next one"


def test_a_service_that_is_stopped_ends_its_report() -> None:
    queue.request_report("olga")
    stopped = worker(SLEEPS)
    stopped.stop()
    stopped.run_once()
    assert Report.objects.get().error == "the report service was stopped"


def test_old_reports_are_deleted_when_a_new_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "REPORTS_MAX", 2)
    for _ in range(4):
        queue.request_report("olga")
        worker(MAKES_A_REPORT).run_once()
    assert list(Report.objects.order_by("-id").values_list("id", flat=True)) == [
        each.pk for each in queue.list_reports()
    ]
    assert len(states()) == 2


def test_the_service_counts_as_running_while_it_signs() -> None:
    assert not queue.is_service_running()
    queue.sign()
    assert queue.is_service_running() and queue.unwatched_since() is not None
    queue.sign_off()
    assert not queue.is_service_running() and queue.unwatched_since() is None
    assert not Silence.objects.exists()
