"""The audit trail in the admin."""

from __future__ import annotations

from django.contrib import admin

from seckill.audit.models import AuditEntry
from seckill.audit.operator_admin import OperatorAdmin


@admin.register(AuditEntry)
class AuditEntryAdmin(OperatorAdmin):
    list_display = ("at", "actor", "verb", "target", "result")
    list_filter = ("verb",)
    search_texts = ("actor", "target")
    ordering = ("-id",)
