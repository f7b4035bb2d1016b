"""Tables of notifications. Each delivery is one message for one user on one channel. Celery's queues only speed it up.

A worker leases a delivery before it calls the sink: `leased_until` is set by the database's clock, and `attempts`
counts leases, so a worker whose lease has expired cannot write its result (notifications/delivery.py).
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from notifications.states import ChannelName, DeliveryState


class Delivery(models.Model):
    event_id = models.UUIDField()
    channel = models.CharField(_("channel"), max_length=10, choices=ChannelName.choices)
    user_id = models.CharField(_("buyer"), max_length=200)
    text = models.TextField(_("text"))
    traceparent = models.CharField(max_length=55, default="", db_default="")  # of the order event
    state = models.CharField(_("state"), max_length=10, choices=DeliveryState.choices, default=DeliveryState.DUE)
    attempts = models.IntegerField(_("attempts"), default=0)
    due_at = models.DateTimeField(_("due (UTC)"), db_default=Now())
    leased_until = models.DateTimeField(null=True)
    done_at = models.DateTimeField(_("delivered (UTC)"), null=True)
    last_fault = models.TextField(_("last fault"), blank=True)

    class Meta:
        db_table = "notifications_delivery"
        verbose_name, verbose_name_plural = _("delivery"), _("deliveries")
        constraints = [
            models.UniqueConstraint(fields=["event_id", "channel"], name="notifications_delivery_once"),
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="notifications_delivery_state"),
            models.CheckConstraint(condition=Q(channel__in=ChannelName.values), name="notifications_delivery_channel"),
        ]
        indexes = [
            models.Index(fields=["channel", "due_at"], condition=Q(state=DeliveryState.DUE), name="notifications_due"),
            models.Index(fields=["channel", "user_id", "id"], name="notifications_order"),
            BrinIndex(fields=["due_at"], autosummarize=True, name="notifications_due_at"),
            BrinIndex(fields=["done_at"], autosummarize=True, name="notifications_done_at"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.user_id}"


class Channel(models.Model):
    """The circuit breaker of a channel, shared by all workers (channel_breaker.py). No row: it has never failed."""

    name = models.CharField(max_length=10, primary_key=True, choices=ChannelName.choices)
    failures = models.IntegerField(default=0)  # in a row
    open_until = models.DateTimeField(null=True)

    class Meta:
        db_table = "notifications_channel"

    def __str__(self) -> str:
        return self.name
