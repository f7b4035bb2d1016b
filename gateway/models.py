"""What a buyer sees of his attempt: a projection of decisions and order events, written with its own offsets."""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models


class Outcome(models.Model):
    """The furthest state of one request. `rank` only grows: two topics have no order between them."""

    request_id = models.UUIDField(primary_key=True)
    user_id = models.CharField(max_length=200, db_index=True)
    sale_id = models.BigIntegerField()
    state = models.CharField(max_length=30)
    rank = models.IntegerField()
    order_id = models.UUIDField(null=True)
    pay_before_ms = models.BigIntegerField(null=True)
    may_buy_again = models.BooleanField(default=False)
    sku = models.CharField(max_length=100, null=True)
    quantity = models.IntegerField(null=True)
    place = models.CharField(max_length=300, null=True)  # of the request: topic/partition/offset
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "gateway_outcome"
        indexes = [BrinIndex(fields=["updated_at"], autosummarize=True, name="gateway_outcome_at")]
