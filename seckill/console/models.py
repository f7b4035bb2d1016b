"""Tables of the console: the reports that operators ordered, the report service's last sign of life, and what it saw.

Django attaches permissions to a model, so `Console`, which has no table, carries the console's.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from seckill.console.permissions import ConsolePermission


class Console(models.Model):
    class Meta:
        managed = False
        default_permissions = ()
        permissions = [(permission.value, permission.meaning) for permission in ConsolePermission]


class Report(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        LOST = "lost"

    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    started_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    """The worker extends it while it makes the report. A report whose lease is over is lost."""
    ended_at = models.DateTimeField(null=True)
    verdict = models.CharField(max_length=8, blank=True)
    counts = models.JSONField(default=dict)
    """Invariants by verdict."""
    error = models.CharField(max_length=500, blank=True)
    html = models.TextField(blank=True)

    class Meta:
        db_table = "console_report"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                name="console_report_state",
                condition=Q(state__in=("queued", "running", "done", "failed", "lost")),
            ),
            models.UniqueConstraint(
                name="console_report_one_queued_one_running",
                fields=["state"],
                condition=Q(state__in=("queued", "running")),
            ),
        ]

    def __str__(self) -> str:
        return f"report {self.pk}"


class ReportService(models.Model):
    """One row. `ended_at` is set by a stop in order, so the next start can tell how long nothing was watched."""

    seen_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    processes = models.JSONField(null=True)
    """The state of each process and server that it watches (`sign_log.ProcessState`)."""

    class Meta:
        db_table = "console_report_service"
        default_permissions = ()

    def __str__(self) -> str:
        return f"report service, last seen at {self.seen_at}"


class Silence(models.Model):
    """A time without a sign of life from a process or server (seckill/console/watch/sign_log.py)."""

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=10)
    began_at_ms = models.BigIntegerField()
    ended_at_ms = models.BigIntegerField(null=True)
    ended_by = models.CharField(max_length=10, blank=True)

    class Meta:
        db_table = "console_silence"
        default_permissions = ()
        constraints = [models.UniqueConstraint(name="console_silence_start", fields=["name", "began_at_ms"])]

    def __str__(self) -> str:
        return f"{self.name} {self.kind} at {self.began_at_ms}"
