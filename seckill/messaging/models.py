"""The tables of messaging: the outbox, group offsets, dead letters, switches, slots, leases and retention."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class OutboxRow(models.Model):
    """A committed event that may not be in its topic yet. The relay deletes the row when the broker acknowledges it.

    A row is inserted while its aggregate's lock is held, so for each key the ids follow the order of commits. Event ids
    have no index, because it would cost a third of the row and readers deduplicate anyway.
    """

    writer = models.CharField(max_length=40)  # a service, or "letters"; one relay for each (service_registry.RELAYS)
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
    """How far a group has processed a partition. This row decides, not the broker's copy: it is updated in the
    transaction of the effects.

    A consumer that is assigned the partition claims the row (epoch + 1); updates with an older epoch change nothing.
    """

    cluster_id = models.CharField(max_length=64)
    topic_id = models.CharField(max_length=64)
    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    group = models.CharField(max_length=100, db_column="consumer_group")
    epoch = models.BigIntegerField(default=0)
    next_offset = models.BigIntegerField()
    # Beyond next_offset: a batch is in progress, or its process has crashed.
    attempting_until = models.BigIntegerField(default=0)
    # Crashes while processing the record at next_offset.
    crash_count = models.IntegerField(default=0)
    # Up to here one record at a time, because a process has crashed on a batch.
    single_step_until = models.BigIntegerField(default=0)
    # A process is at the record at next_offset, and is not waiting for a lock.
    is_processing = models.BooleanField(default=False, db_default=False)
    # Fingerprint of the record before next_offset; "" if it is unknown.
    last_record = models.CharField(max_length=32, default="", db_default="")
    # Why the group has halted here; "" if it has not.
    halted = models.TextField(default="", db_default="")

    class Meta:
        db_table = "streams_offset"
        constraints = [
            models.UniqueConstraint(fields=["group", "cluster_id", "topic_id", "partition"], name="streams_offset_one")
        ]


class DeadLetter(models.Model):
    """A record that could not be processed; open until it is replayed or discarded."""

    class State(models.TextChoices):
        OPEN = "open"
        REPLAYED = "replayed"
        DISCARDED = "discarded"
        QUARANTINED = "quarantined"  # its replays have failed too often; replayed again only with --quarantined

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
    replays = models.IntegerField(default=0)  # failed ones
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    note = models.TextField(default="")  # why it was discarded
    died_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "streams_dead_letter"
        verbose_name, verbose_name_plural = _("dead letter"), _("dead letters")
        constraints = [
            models.UniqueConstraint(fields=["group", "topic_id", "partition", "offset"], name="streams_dead_letter_one")
        ]

    def __str__(self) -> str:
        return f"{self.group} {self.topic}-{self.partition}@{self.offset}"


class Switch(models.Model):
    """A group that an operator has switched off; deleting the row switches it on."""

    group = models.CharField(max_length=100, primary_key=True, db_column="consumer_group")
    off_since = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "streams_switch"


class SlotMap(models.Model):
    """The partition of each slot of a topic, and the slots being moved, to which producers send nothing meanwhile."""

    topic = models.CharField(max_length=249, primary_key=True)
    version = models.BigIntegerField()
    partition_of = models.JSONField()  # by slot
    moving = models.JSONField(default=dict)  # slot → its new partition
    diverted = models.BigIntegerField(default=0)  # id of the divert in force, or 0
    transition = models.CharField(
        max_length=10, default=""
    )  # "divert" or "rejoin": producers send nothing until it is done

    class Meta:
        db_table = "streams_slot_map"


class Divert(models.Model):
    """The users that stay in the old queue during a divert, because they have requests there. Never updated."""

    topic = models.CharField(max_length=249)
    pinned_users = models.BinaryField()  # encoded by PinnedUsers
    users = models.IntegerField()
    began_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "streams_divert"


class ProducerLease(models.Model):
    """A process that may send by slots until its lease expires. Nothing that it has sent by a slot map older than
    `version` is still under way."""

    id = models.UUIDField(primary_key=True)
    topic = models.CharField(max_length=249)
    name = models.CharField(max_length=100)
    version = models.BigIntegerField()
    partitions = models.IntegerField()  # number of partitions that this process knows
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "streams_producer_lease"


class Retention(models.Model):
    """The time from which a service still needs its rows, and the time up to which finished rows may be deleted."""

    service = models.CharField(max_length=40, primary_key=True)
    needs_from = models.DateTimeField()
    pruned_to = models.DateTimeField(null=True)

    class Meta:
        db_table = "streams_retention"
