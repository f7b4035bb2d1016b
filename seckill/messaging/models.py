"""The rows every service shares: what is still to be published, and how far each group has read."""

from __future__ import annotations

from django.db import models


class OutboxRow(models.Model):
    """An event that is true (its transaction has committed) but perhaps not yet in its topic. Gone once acknowledged.

    Rows are inserted after their aggregate's lock is held, so their ids follow the order of commits per key. Event ids
    have no index: it would cost a third of a row, and every reader takes an event once.
    """

    writer = models.CharField(max_length=40)  # the service; one relay for each
    topic = models.CharField(max_length=249)
    key = models.CharField(max_length=200)
    event_id = models.UUIDField()
    value = models.BinaryField()
    headers = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "streams_outbox"
        indexes = [models.Index(fields=["writer", "id"], name="streams_outbox_next")]


class ConsumerOffset(models.Model):
    """How far a group has read a partition: the truth, in the transaction of the effects.

    Whoever is assigned the partition claims the row (epoch + 1); a writer with an older epoch changes nothing.
    """

    cluster_id = models.CharField(max_length=64)
    topic_id = models.CharField(max_length=64)
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    group = models.CharField(max_length=100, db_column="consumer_group")
    epoch = models.BigIntegerField(default=0)
    next_offset = models.BigIntegerField()
    trying_to = models.BigIntegerField(default=0)  # beyond next_offset: a batch is being tried, or its process died
    deaths = models.IntegerField(default=0)  # of processes, since the last advance
    careful_to = models.BigIntegerField(default=0)  # up to here one record at a time
    is_at_work = models.BooleanField(
        default=False, db_default=False
    )  # on the one record at next_offset, and waits for no lock
    last_record = models.CharField(
        max_length=32, default="", db_default=""
    )  # identity of the record before next_offset; "": unknown
    halted = models.TextField(
        default="", db_default=""
    )  # why the group does not go on here: the log is not the one that was read

    class Meta:
        db_table = "streams_offset"
        constraints = [
            models.UniqueConstraint(fields=["group", "cluster_id", "topic_id", "partition"], name="streams_offset_one")
        ]


class DeadLetter(models.Model):
    """A record that could not be worked on: under examination until it is replayed or discarded."""

    class State(models.TextChoices):
        OPEN = "open"
        REPLAYED = "replayed"
        DISCARDED = "discarded"
        QUARANTINED = "quarantined"  # replayed in vain too often; only on express demand again

    group = models.CharField(max_length=100, db_column="consumer_group")
    cluster_id = models.CharField(max_length=64, default="")
    topic = models.CharField(max_length=249)
    topic_id = models.CharField(max_length=64)
    partition = models.IntegerField()
    offset = models.BigIntegerField(db_column="record_offset")
    timestamp_ms = models.BigIntegerField(default=0)
    key = models.BinaryField(null=True)
    value = models.BinaryField(null=True)
    headers = models.JSONField(default=list)  # [name, value in hex or null]
    reason = models.TextField()
    attempts = models.IntegerField(default=1)
    replays = models.IntegerField(default=0)  # in vain
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    note = models.TextField(default="")  # why it was discarded
    died_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "streams_dead_letter"
        constraints = [
            models.UniqueConstraint(fields=["group", "topic_id", "partition", "offset"], name="streams_dead_letter_one")
        ]


class Switch(models.Model):
    """A group that an operator has told to hold still; it catches up when the row is gone."""

    group = models.CharField(max_length=100, primary_key=True, db_column="consumer_group")
    off_since = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "streams_switch"


class SlotMap(models.Model):
    """Which partition of a topic each slot goes to, and which slots are being moved: they take nothing meanwhile."""

    topic = models.CharField(max_length=249, primary_key=True)
    version = models.BigIntegerField()
    partition_of = models.JSONField()  # by slot
    moving = models.JSONField(default=dict)  # slot → the partition it goes to
    diverted = models.BigIntegerField(default=0)  # the divert in force, or 0
    turning = models.CharField(max_length=10, default="")  # divert, rejoin: nobody is sent anywhere until that is done

    class Meta:
        db_table = "streams_slot_map"


class Divert(models.Model):
    """Who stays where he was while a divert is in force: whoever had something open there. Written once."""

    topic = models.CharField(max_length=249)
    stayers = models.BinaryField()  # as seckill/streams/stayers.py has them
    users = models.IntegerField()
    began_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "streams_divert"


class ProducerLease(models.Model):
    """A process that may write by slots until its lease ends; everything it has sent by older versions is settled."""

    id = models.UUIDField(primary_key=True)
    topic = models.CharField(max_length=249)
    name = models.CharField(max_length=100)
    version = models.BigIntegerField()
    partitions = models.IntegerField()  # so many it knows the topic to have
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "streams_producer_lease"


class Retention(models.Model):
    """From when on a service still needs its rows, and up to when those that are finished may have been removed."""

    service = models.CharField(max_length=40, primary_key=True)
    needs_from = models.DateTimeField()
    pruned_to = models.DateTimeField(null=True)

    class Meta:
        db_table = "streams_retention"
