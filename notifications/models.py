"""Deliveries: what is to be told to whom, over which channel. Celery's queues hold nothing that is not here."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q


class Delivery(models.Model):
    """`given_up`: the sink has understood the message and will not have it."""

    event_id = models.UUIDField()
    channel = models.CharField(max_length=10)
    user_id = models.CharField(max_length=200)
    text = models.TextField()
    traceparent = models.CharField(max_length=55, default="", db_default="")  # of the event
    state = models.CharField(max_length=10, default="due")  # due, done, given_up
    attempts = models.IntegerField(default=0)
    due_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    last_fault = models.TextField(blank=True)

    class Meta:
        db_table = "notifications_delivery"
        constraints = [
            models.UniqueConstraint(fields=["event_id", "channel"], name="notifications_delivery_once"),
        ]
        indexes = [
            models.Index(fields=["channel", "due_at"], condition=Q(state="due"), name="notifications_due"),
            models.Index(fields=["channel", "user_id", "id"], name="notifications_order"),
            BrinIndex(fields=["due_at"], autosummarize=True, name="notifications_due_at"),
            BrinIndex(fields=["done_at"], autosummarize=True, name="notifications_done_at"),
        ]


class Channel(models.Model):
    """The breaker of a channel, the same for all workers (notifications/breaker.py). No row: it has never failed."""

    name = models.CharField(max_length=10, primary_key=True)
    failures = models.IntegerField(default=0)  # in a row
    open_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "notifications_channel"
