"""The table of the audit trail: one row for each command of an operator. Rows are never changed or deleted."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class AuditEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=200)
    verb = models.CharField(max_length=60)  # the command: "sale close", "refund", "letters replay"
    target = models.CharField(max_length=200)
    arguments = models.JSONField(default=dict)
    result = models.TextField()  # "done", or the reason for a refusal

    class Meta:
        db_table = "audit_entry"
        verbose_name, verbose_name_plural = _("audit entry"), _("audit entries")

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"
