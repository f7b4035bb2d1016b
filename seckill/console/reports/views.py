"""The list of consistency reports, a button that orders another one, and the finished pages.

A request only writes to the queue; the report service makes the report (seckill/console/reports/worker.py).
"""

from __future__ import annotations

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_http_methods

from seckill.audit.trail import audited
from seckill.console.labels import VERDICTS, state_label
from seckill.console.models import Report
from seckill.console.notices import pop_notice, set_notice
from seckill.console.permissions import require_permission
from seckill.console.reports import queue
from seckill.console.staff import operator_required
from seckill.web.content_security import POLICY

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
"""A report is one file with inline style and script, so it runs in a sandbox, apart from the console."""
UNFINISHED = (Report.State.QUEUED, Report.State.RUNNING)


class ReportRow:
    """What the pages show of a report. `verdict` is a key of `labels.VERDICTS`: the report's, else its state."""

    def __init__(self, report: Report) -> None:
        self.number, self.at, self.by, self.error = report.pk, report.requested_at, report.requested_by, report.error
        self.counts: dict[str, int] = report.counts
        self.is_done = report.state == Report.State.DONE
        self.verdict = report.verdict if self.is_done else report.state.upper()

    @property
    def verdict_label(self) -> str:
        return state_label(VERDICTS, self.verdict)

    @property
    def count_labels(self) -> list[str]:
        return [f"{count} {state_label(VERDICTS, verdict)}" for verdict, count in self.counts.items()]


@require_http_methods(["GET", "POST"])
@operator_required
def reports(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        require_permission(request, "report")
        _order_report(request)
        return HttpResponseRedirect(reverse("console:reports"), status=303)
    found = list(queue.list_reports())
    context = {
        "reports": [ReportRow(each) for each in found],
        "is_queued": any(each.state == Report.State.QUEUED for each in found),
        "is_unfinished": any(each.state in UNFINISHED for each in found),
        "is_service_running": queue.is_service_running(),
        "notice": pop_notice(request),
    }
    return render(request, "console/reports.html", context)


def _order_report(request: HttpRequest) -> None:
    with transaction.atomic():
        ordered = queue.request_report(request.user.get_username())
        if ordered is not None:
            with audited("report", str(ordered)):
                return
    set_notice(request, gettext("A report is already queued. It will be made next."), is_good=False)


@require_GET
@operator_required
def report(request: HttpRequest, number: int) -> HttpResponse:
    html = Report.objects.filter(id=number, state=Report.State.DONE).values_list("html", flat=True).first()
    if html is None:
        raise Http404
    return HttpResponse(html, headers={POLICY: REPORT_POLICY})


def last_report() -> ReportRow | None:
    """The newest report with a result."""
    found = Report.objects.filter(state=Report.State.DONE).defer("html").order_by("-id").first()
    return None if found is None else ReportRow(found)
