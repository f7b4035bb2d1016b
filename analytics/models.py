"""The tables of statistics. Each row belongs to a run (a stream's checkpoint, or one replay) and is a sum to add to.

The tables below `Statistic` have the names and columns of `analytics.measures.MEASURES`; a test compares them.
"""

from __future__ import annotations

from django.db import models


class Run(models.Model):
    """`log` holds the ids of the cluster and its topics. `starts` and `cut` hold an offset for each partition; a stream
    moves its cut with every batch."""

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=10)  # live or replay
    log = models.JSONField(default=dict)
    starts = models.JSONField(default=dict)
    cut = models.JSONField(default=dict)
    started_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.kind} run {self.id}"


class Batch(models.Model):
    """A batch that was added to the statistics, written in the same transaction, so that it is never added twice."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE)
    batch = models.BigIntegerField()
    records = models.BigIntegerField()
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "batch"], name="analytics_batch_once")]

    def __str__(self) -> str:
        return f"batch {self.batch} of run {self.run_id}"


class Staged(models.Model):
    """Rows on their way: Spark tasks write them, and one transaction adds them to the statistics and deletes them."""

    run_id = models.UUIDField()
    batch = models.BigIntegerField()
    part = models.IntegerField()
    measure = models.CharField(max_length=20)
    row = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["run_id", "batch", "part"], name="analytics_staged_part")]

    def __str__(self) -> str:
        return f"{self.measure} of batch {self.batch}, part {self.part}"


# ── statistics ───────────────────────────────────────────────────────────────────────────────────


class Statistic(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE)

    class Meta:
        abstract = True


class PartitionStatistic(Statistic):
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()

    class Meta:
        abstract = True


class SaleStatistic(Statistic):
    sale_id = models.BigIntegerField()

    class Meta:
        abstract = True


class ArticleStatistic(SaleStatistic):
    sku = models.CharField(max_length=100)

    class Meta:
        abstract = True


def _unique_in_run(table: str, *keys: str) -> list[models.BaseConstraint]:
    """A run has one row for each combination of keys."""
    return [models.UniqueConstraint(fields=["run", *keys], name=f"analytics_{table}_one")]


class Partition(PartitionStatistic):
    """How far each partition was read."""

    records = models.BigIntegerField()
    first_offset = models.BigIntegerField()
    next_offset = models.BigIntegerField()
    last_log_ms = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("partition", "topic", "partition")


class Unreadable(PartitionStatistic):
    """Records that could not be read, by reason."""

    fault = models.CharField(max_length=100)
    records = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("unreadable", "topic", "partition", "fault")


class Total(PartitionStatistic):
    """Distinct events by partition, sale and kind. `late` counts those that reached the log late."""

    sale_id = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    events = models.BigIntegerField()
    units = models.BigIntegerField()
    amount = models.BigIntegerField()
    late = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("total", "topic", "partition", "sale_id", "kind")


class Flow(SaleStatistic):
    """Events by second and kind."""

    at_ms = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    events = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("flow", "sale_id", "at_ms", "kind")


class SellThrough(ArticleStatistic):
    """Units by second."""

    at_ms = models.BigIntegerField()
    reserved = models.BigIntegerField()
    released = models.BigIntegerField()
    sold = models.BigIntegerField()

    class Meta:
        db_table = "analytics_sell_through"
        constraints = _unique_in_run("sell_through", "sale_id", "sku", "at_ms")


class Revenue(SaleStatistic):
    """Money by minute, in the smallest coin."""

    at_ms = models.BigIntegerField()
    orders = models.BigIntegerField()
    amount = models.BigIntegerField()
    refunded = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("revenue", "sale_id", "at_ms")


class Sku(ArticleStatistic):
    """Demand for each article."""

    requests = models.BigIntegerField()
    wanted = models.BigIntegerField()
    reserved = models.BigIntegerField()
    sold_out = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("sku", "sale_id", "sku")


class Buyer(SaleStatistic):
    """Requests of each buyer, and when the first and the last one was sent."""

    user_id = models.CharField(max_length=200)
    requests = models.BigIntegerField()
    refused = models.BigIntegerField()
    granted = models.BigIntegerField()
    first_ms = models.BigIntegerField(null=True)
    last_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = _unique_in_run("buyer", "sale_id", "user_id")


class Latency(SaleStatistic):
    """Latencies as counts in buckets (see `analytics.measures.timing.bucket`)."""

    stage = models.CharField(max_length=10)
    bucket = models.IntegerField()
    events = models.BigIntegerField()
    most_ms = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("latency", "sale_id", "stage", "bucket")


class Fairness(ArticleStatistic):
    """Granted and refused requests by the tenth of a second in which they reached the log."""

    came_ms = models.BigIntegerField()
    granted = models.BigIntegerField()
    refused = models.BigIntegerField()

    class Meta:
        constraints = _unique_in_run("fairness", "sale_id", "sku", "came_ms")
