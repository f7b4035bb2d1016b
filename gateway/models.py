"""The table of what buyers see of their purchases. It is a projection of decisions and order events."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from seckill.web.purchase_states import DECIDED


class Outcome(models.Model):
    """The furthest state of one request. `rank` only grows, because events of two topics arrive in no fixed order."""

    request_id = models.UUIDField(primary_key=True)
    user_id = models.CharField(max_length=200, db_index=True)
    sale_id = models.BigIntegerField()
    state = models.CharField(max_length=30, choices=[(state.value, state.label) for state in DECIDED])
    rank = models.IntegerField()
    order_id = models.UUIDField(null=True)
    pay_before_ms = models.BigIntegerField(null=True)
    may_buy_again = models.BooleanField(default=False)
    sku = models.CharField(max_length=100, null=True)
    quantity = models.IntegerField(null=True)
    place = models.CharField(max_length=300, null=True)  # position of the request: topic/partition/offset
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "gateway_outcome"
        indexes = [BrinIndex(fields=["updated_at"], autosummarize=True, name="gateway_outcome_at")]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in DECIDED]), name="gateway_outcome_state_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.state}"
