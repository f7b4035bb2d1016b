"""The list of consistency reports, and a button that makes another one.

A report is made by `seckill report` in a process of its own, one at a time, into the stack's folder. No request waits
for it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from seckill.audit.trail import audited
from seckill.console.labels import VERDICTS, state_label
from seckill.console.notices import pop_notice, set_notice
from seckill.console.permissions import require_permission
from seckill.console.staff import operator_required
from seckill.web.content_security import POLICY

NAME = re.compile(r"[0-9]{8}-[0-9]{6}")
NAME_FORMAT = "%Y%m%d-%H%M%S"
PATIENCE_S, REPORT_SECONDS_MAX = 20, 900
REPORTS_MAX = 50
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
"""A report is one file with inline style and script, so it runs in a sandbox, apart from the console."""

_running = threading.Lock()


class ReportRow(NamedTuple):
    """`verdict` is a key of `labels.VERDICTS`; `counts`: invariants by verdict, empty without a result."""

    name: str
    at: datetime
    verdict: str
    counts: dict[str, int]

    @property
    def verdict_label(self) -> str:
        return state_label(VERDICTS, self.verdict)

    @property
    def count_labels(self) -> list[str]:
        return [f"{count} {state_label(VERDICTS, verdict)}" for verdict, count in self.counts.items()]


@require_http_methods(["GET", "POST"])
@operator_required
def reports(request: HttpRequest) -> HttpResponse:
    folder = reports_folder()
    if request.method == "POST":
        require_permission(request, "report")
        if folder is None:
            set_notice(request, gettext("There is no folder for reports."), is_good=False)
        elif not _start_report(folder):
            set_notice(request, gettext("A report is already being made."), is_good=False)
        return HttpResponseRedirect(reverse("console:reports"), status=303)
    context = {
        "reports": [] if folder is None else list_reports(folder),
        "has_folder": folder is not None,
        "is_running": _running.locked(),
        "notice": pop_notice(request),
    }
    return render(request, "console/reports.html", context)


@require_GET
@operator_required
def report(request: HttpRequest, name: str) -> HttpResponse:
    folder = reports_folder()
    path = folder / f"{name}.html" if folder is not None and NAME.fullmatch(name) else None
    if path is None or not path.is_file():
        raise Http404
    return HttpResponse(path.read_bytes(), headers={POLICY: REPORT_POLICY})


def list_reports(folder: Path) -> list[ReportRow]:
    """The newest first. A report that has a log but no result is being made, or failed."""
    return [_report_row(folder, path.stem) for path in sorted(folder.glob("*.log"), reverse=True)[:REPORTS_MAX]]


def _report_row(folder: Path, name: str) -> ReportRow:
    at = datetime.strptime(name, NAME_FORMAT).replace(tzinfo=UTC)
    try:
        result = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        is_new = time.time() - at.timestamp() < REPORT_SECONDS_MAX
        return ReportRow(name, at, "RUNNING" if is_new and _running.locked() else "LOST", {})
    verdicts = [each["verdict"] for each in result["invariants"]]
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    return ReportRow(name, at, result["verdict"], counts)


def reports_folder() -> Path | None:
    stack = settings.ENVIRONMENT.stack_folder
    return Path(stack) / "reports" if stack else None


def _start_report(folder: Path) -> bool:
    """False if one is being made."""
    if not _running.acquire(blocking=False):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{datetime.now(UTC):{NAME_FORMAT}}"
        with audited("report", name):
            threading.Thread(target=_make_report, args=(folder, name), name="report", daemon=True).start()
    except BaseException:
        _running.release()
        raise
    return True


def _make_report(folder: Path, name: str) -> None:
    command = [
        sys.executable, "-m", "seckill.cli", "report", "--data", str(folder.parent), "--patience", str(PATIENCE_S),
        "--json", str(folder / f"{name}.json"), "--html", str(folder / f"{name}.html"),
    ]  # fmt: skip
    try:
        with (folder / f"{name}.log").open("wb") as output:
            subprocess.run(command, stdout=output, stderr=output, timeout=REPORT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        pass  # the log says how far it came
    finally:
        _running.release()
