"""The fake that handler tests use instead of `HostedPartitions` finds and misses the same partitions."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.identity import TopicPartition
from mqcore.partitions.hosted import HostedPartitions
from tests.unit.mqcore.apis.memory_broker import IDS, ORDERS, PAYMENTS, MemoryBroker
from tests.unit.mqcore.coordination.virtual import VirtualClock
from tests.unit.mqcore.partitions.folder import HeldFlusher


def fake_partitions(broken_topic: str | None) -> Any:
    partitions = MemoryBroker().partitions
    if broken_topic is not None:
        partitions.offline.add(broken_topic)
    return partitions


def hosted_partitions(broken_topic: str | None) -> Any:
    disk = MemoryDisk()
    hosted = HostedPartitions(disk, VirtualClock(), HeldFlusher(), is_clean=True)
    for topic, topic_id in IDS.items():
        if topic == broken_topic:
            disk.fail("open", errno.EIO)
        hosted.open(TopicPartition(topic, 0), topic_id, {})
    return hosted


@pytest.mark.parametrize("make", [fake_partitions, hosted_partitions])
@pytest.mark.parametrize("broken_topic", [None, PAYMENTS])
def test_partitions_are_found_by_name_and_by_id(make: Callable[[str | None], Any], broken_topic: str | None) -> None:
    partitions = make(broken_topic)
    found = partitions.get(ORDERS, 0)
    assert found is not None and (found.topic, found.index) == (ORDERS, 0)
    assert partitions.by_id(IDS[ORDERS], 0) is found
    assert (partitions.get(PAYMENTS, 0) is None) == (partitions.by_id(IDS[PAYMENTS], 0) is None) == bool(broken_topic)
    assert partitions.get(ORDERS, 1) is partitions.by_id(IDS[ORDERS], 1) is None
    assert partitions.get("absent", 0) is partitions.by_id(UUID(int=99), 0) is None
    assert (TopicPartition(PAYMENTS, 0) in partitions.open_failures) == bool(broken_topic)
