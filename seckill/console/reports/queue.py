"""Store: the queue of reports in the table `console_report`.

At most one report waits and at most one is made, for all gateways and workers together: a unique constraint says so. A
worker extends its lease while it works. If it dies, the lease ends, the report counts as lost, and the next one can
begin. All times are Postgres', so the clocks of workers do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from seckill.console.models import Report, ReportService

REPORTS_MAX = 50
"""Older reports are deleted."""
LEASE_SECONDS = 15
SERVICE_SILENT_SECONDS_MAX = 10
"""The report service signs about once a second; after this long without a sign it counts as not running."""
ERROR_CHARACTERS_MAX = 500
NOTHING_WATCHED: Mapping[str, str] = MappingProxyType({})


def request_report(requested_by: str) -> Report | None:
    """None if a report is queued already: it will read everything that a second one would read."""
    try:
        with transaction.atomic():
            return Report.objects.create(requested_by=requested_by[:150])
    except IntegrityError:
        return None


def claim_report() -> Report | None:
    """The queued report, which the caller now has to make; None if none is queued or another one is being made."""
    expire_leases()
    try:
        with transaction.atomic():
            queued = Report.objects.filter(state=Report.State.QUEUED).select_for_update(skip_locked=True)
            report = queued.defer("html").first()
            if report is not None:
                lease_until = Now() + timedelta(seconds=LEASE_SECONDS)
                running = {"state": Report.State.RUNNING, "started_at": Now(), "lease_until": lease_until}
                Report.objects.filter(id=report.pk).update(**running)
            return report
    except IntegrityError:
        return None


def extend_lease(report: Report) -> bool:
    """False if the lease was over, so the report is lost and its worker must give up."""
    running = Report.objects.filter(id=report.pk, state=Report.State.RUNNING, lease_until__gt=Now())
    return running.update(lease_until=Now() + timedelta(seconds=LEASE_SECONDS)) == 1


def expire_leases() -> None:
    overdue = Report.objects.filter(state=Report.State.RUNNING, lease_until__lte=Now())
    overdue.update(state=Report.State.LOST, ended_at=F("lease_until"))


def finish_report(report: Report, verdict: str, counts: dict[str, int], html: str) -> bool:
    return _end(report, state=Report.State.DONE, verdict=verdict, counts=counts, html=html)


def fail_report(report: Report, error: str) -> bool:
    return _end(report, state=Report.State.FAILED, error=error[-ERROR_CHARACTERS_MAX:])


def _end(report: Report, **values: object) -> bool:
    """False if the report was lost before."""
    running = Report.objects.filter(id=report.pk, state=Report.State.RUNNING)
    has_ended = running.update(ended_at=Now(), lease_until=None, **values) == 1
    newest = list(Report.objects.order_by("-id").values_list("id", flat=True)[:REPORTS_MAX])
    Report.objects.exclude(id__in=newest).delete()
    return has_ended


def list_reports() -> QuerySet[Report]:
    """The newest first, without their pages. A lease that is over counts even if no worker has noticed."""
    expire_leases()
    return Report.objects.defer("html").order_by("-id")[:REPORTS_MAX]


# ── the service's own signs of life ──────────────────────────────────────────────────────────────


def sign(processes: Mapping[str, str] = NOTHING_WATCHED) -> None:
    """Record that the report service runs, and the state of each process that it watches."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO console_report_service (id, processes) VALUES (1, %s) ON CONFLICT (id) DO UPDATE"
            " SET seen_at = statement_timestamp(), ended_at = NULL, processes = excluded.processes",
            [json.dumps(dict(processes))],
        )


def sign_off() -> None:
    """Record that the report service stops in order."""
    ReportService.objects.update(ended_at=Now())


def is_service_running() -> bool:
    return _running_service().exists()


def watched_processes() -> dict[str, str]:
    """The state of each process that the report service watches; empty if it does not run."""
    return _running_service().values_list("processes", flat=True).first() or {}


def _running_service() -> QuerySet[ReportService]:
    since = Now() - timedelta(seconds=SERVICE_SILENT_SECONDS_MAX)
    return ReportService.objects.filter(seen_at__gt=since, ended_at=None)


def unwatched_since() -> datetime | None:
    """When the last report service was last seen; None if it stopped in order."""
    return ReportService.objects.filter(ended_at=None).values_list("seen_at", flat=True).first()
