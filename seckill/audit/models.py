"""The trail: one row for each verb of an operator. Nothing changes or removes one."""

from __future__ import annotations

from django.db import models


class Entry(models.Model):
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=200)
    verb = models.CharField(max_length=60)  # as it is spoken: "sale close", "refund", "letters replay"
    target = models.CharField(max_length=200)
    arguments = models.JSONField(default=dict)
    result = models.TextField()  # "done", or what came of it instead

    class Meta:
        db_table = "audit_entry"
