"""The tables of statistics. `run` is the checkpoint of a stream, or one replay; each row is a sum that can be added to.

Names and columns are those of `analytics.measures.MEASURES`, which is checked by a test.
"""

from __future__ import annotations

from django.db import models


class Run(models.Model):
    """`log`: the cluster and its topics, by their ids. `starts`, `cut`: of each topic and partition; a stream moves its
    cut with every batch."""

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=10)  # live, replay
    log = models.JSONField(default=dict)
    starts = models.JSONField(default=dict)
    cut = models.JSONField(default=dict)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "analytics_run"


class Batch(models.Model):
    """A batch whose counts have been added: it is never added again. In one transaction with them."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE)
    batch = models.BigIntegerField()
    records = models.BigIntegerField()
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "analytics_batch"
        constraints = [models.UniqueConstraint(fields=["run", "batch"], name="analytics_batch_once")]


class Staged(models.Model):
    """Rows on their way: written by many tasks, added by one transaction, then gone."""

    run_id = models.UUIDField()
    batch = models.BigIntegerField()
    part = models.IntegerField()
    measure = models.CharField(max_length=20)
    row = models.JSONField()

    class Meta:
        db_table = "analytics_staged"
        indexes = [models.Index(fields=["run_id", "batch", "part"], name="analytics_staged_part")]


class Statistic(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE)

    class Meta:
        abstract = True


class Partition(Statistic):
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    records = models.BigIntegerField()
    first_offset = models.BigIntegerField()
    next_offset = models.BigIntegerField()
    last_log_ms = models.BigIntegerField()

    class Meta:
        db_table = "analytics_partition"
        constraints = [models.UniqueConstraint(fields=["run", "topic", "partition"], name="analytics_partition_one")]


class Unreadable(Statistic):
    """Records that could not be read, by why."""

    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    fault = models.CharField(max_length=100)
    records = models.BigIntegerField()

    class Meta:
        db_table = "analytics_unreadable"
        constraints = [
            models.UniqueConstraint(fields=["run", "topic", "partition", "fault"], name="analytics_unreadable_one")
        ]


class Total(Statistic):
    """Distinct events by place and kind. `late`: of them, those that came late into the log."""

    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    sale_id = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    events = models.BigIntegerField()
    units = models.BigIntegerField()
    amount = models.BigIntegerField()
    late = models.BigIntegerField()

    class Meta:
        db_table = "analytics_total"
        constraints = [
            models.UniqueConstraint(fields=["run", "topic", "partition", "sale_id", "kind"], name="analytics_total_one")
        ]


class Flow(Statistic):
    """Events by second."""

    sale_id = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    events = models.BigIntegerField()

    class Meta:
        db_table = "analytics_flow"
        constraints = [models.UniqueConstraint(fields=["run", "sale_id", "at_ms", "kind"], name="analytics_flow_one")]


class SellThrough(Statistic):
    """Units by second."""

    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    at_ms = models.BigIntegerField()
    reserved = models.BigIntegerField()
    released = models.BigIntegerField()
    sold = models.BigIntegerField()

    class Meta:
        db_table = "analytics_sell_through"
        constraints = [
            models.UniqueConstraint(fields=["run", "sale_id", "sku", "at_ms"], name="analytics_sell_through_one")
        ]


class Revenue(Statistic):
    """Money by minute, in the smallest coin."""

    sale_id = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    orders = models.BigIntegerField()
    amount = models.BigIntegerField()
    refunded = models.BigIntegerField()

    class Meta:
        db_table = "analytics_revenue"
        constraints = [models.UniqueConstraint(fields=["run", "sale_id", "at_ms"], name="analytics_revenue_one")]


class Sku(Statistic):
    """What was asked for."""

    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    requests = models.BigIntegerField()
    wanted = models.BigIntegerField()
    reserved = models.BigIntegerField()
    sold_out = models.BigIntegerField()

    class Meta:
        db_table = "analytics_sku"
        constraints = [models.UniqueConstraint(fields=["run", "sale_id", "sku"], name="analytics_sku_one")]


class Buyer(Statistic):
    """Who asked how often."""

    sale_id = models.BigIntegerField()
    user_id = models.CharField(max_length=200)
    requests = models.BigIntegerField()
    refused = models.BigIntegerField()
    granted = models.BigIntegerField()
    first_ms = models.BigIntegerField(null=True)
    last_ms = models.BigIntegerField(null=True)

    class Meta:
        db_table = "analytics_buyer"
        constraints = [models.UniqueConstraint(fields=["run", "sale_id", "user_id"], name="analytics_buyer_one")]


class Latency(Statistic):
    """How long it took: counts in buckets (analytics.measures.timing.bucket)."""

    sale_id = models.BigIntegerField()
    stage = models.CharField(max_length=10)
    bucket = models.IntegerField()
    events = models.BigIntegerField()
    most_ms = models.BigIntegerField()

    class Meta:
        db_table = "analytics_latency"
        constraints = [
            models.UniqueConstraint(fields=["run", "sale_id", "stage", "bucket"], name="analytics_latency_one")
        ]


class Fairness(Statistic):
    """Who came when, and got it or not, by tenths of a second."""

    sale_id = models.BigIntegerField()
    sku = models.CharField(max_length=100)
    came_ms = models.BigIntegerField()
    granted = models.BigIntegerField()
    refused = models.BigIntegerField()

    class Meta:
        db_table = "analytics_fairness"
        constraints = [
            models.UniqueConstraint(fields=["run", "sale_id", "sku", "came_ms"], name="analytics_fairness_one")
        ]
