"""Deliveries in the admin. A delivery that its sink rejected can be sent again."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from notifications.delivery import DeliveryNotGivenUp, resend_delivery
from notifications.models import Delivery
from seckill.audit.operator_admin import OperatorAction, OperatorAdmin


def _resend(delivery: Delivery, reason: str) -> str:
    resend_delivery(delivery.pk)
    return _("Delivery %(id)d is due again.") % {"id": delivery.pk}


@admin.register(Delivery)
class DeliveryAdmin(OperatorAdmin):
    list_display = ("id", "channel", "user_id", "text", "state", "attempts", "due_at", "done_at", "last_fault")
    list_filter = ("state", "channel")
    search_ids = ("event_id",)
    ordering = ("-id",)
    operator_actions = (
        OperatorAction(
            "resend", "delivery resend", "operate", gettext_lazy("Send again"), _resend, (DeliveryNotGivenUp,)
        ),
    )  # fmt: skip
