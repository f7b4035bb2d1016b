"""The cast of the tests on diverts: a topic with its overflow topic, and a handler that reads both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from seckill.messaging import diversion, slot_moves, slots
from seckill.messaging.models import ConsumerOffset
from seckill.messaging.records import Batch
from seckill.messaging.slots import SlotUnavailable, SlotWriter
from seckill.messaging.topics import Topic
from seckill.stack.broker_process import BrokerProcess
from tests.concurrency.messaging_cast import Notes, make_topic, value
from tests.concurrency.slots_cast import quiet

GROUP = "readers"
ANN, BOB = b"ann", b"bob"


def make_topic_with_overflow(broker: BrokerProcess) -> Topic:
    """A topic with an overflow topic."""
    made = replace(make_topic(broker.address), overflow=make_topic(broker.address))
    slots.ensure_slot_map(made, made.partitions)
    return made


def overflow_of(topic: Topic) -> Topic:
    assert topic.overflow is not None
    return topic.overflow


class BothTopics(Notes):
    """Reads both topics, the overflow topic first."""

    def __init__(self, topic: Topic, before: Callable[[Batch], None] = lambda batch: None) -> None:
        super().__init__(before, topic)
        self.topics = (topic, overflow_of(topic))  # type: ignore[assignment]  # Notes reads one topic
        self.priority_topic = overflow_of(topic)


def divert(broker: BrokerProcess, topic: Topic) -> diversion.Diversion:
    return diversion.divert(broker.address, topic, GROUP, quiet)


def rejoin(broker: BrokerProcess, topic: Topic) -> int:
    return diversion.rejoin(broker.address, topic, GROUP, quiet)


def sent_to(writer: SlotWriter, key: bytes, text: str = "x") -> str | None:
    """The topic it went to; None if the writer takes nothing now."""
    try:
        return str(writer.send(key, value(text)).get(10).topic)
    except SlotUnavailable:
        return None


def has_new_map(writer: SlotWriter, topic: Topic) -> bool:
    return writer._known is not None and writer._known.table.version == slot_moves.load_slot_map(topic).version


def offsets_sum(topic: Topic) -> int:
    names = [each.name for each in slot_moves.with_overflow(topic)]
    return sum(ConsumerOffset.objects.filter(topic__in=names).values_list("next_offset", flat=True))
