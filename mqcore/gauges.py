"""Shell: what is measured when the page of metrics is asked for, instead of counted as it happens."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.disk.port import Disk
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.metrics import Metrics, Sample
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition


def declare(metrics: Metrics, partitions: HostedPartitions, groups: GroupCoordinator, disk: Disk) -> None:
    def offline() -> int:
        return len(partitions.offline) + sum(partition.offline is not None for partition in partitions)

    observe = metrics.observe
    observe("mqcore_partitions", "partitions hosted", (), lambda: [((), len(partitions))])
    observe("mqcore_partitions_offline", "partitions that are offline", (), lambda: [((), offline())])
    observe("mqcore_disk_free_bytes", "free bytes of the data folder", (), lambda: [((), disk.free_bytes())])
    observe("mqcore_log_bytes", "bytes of logs", ("topic",), lambda: _by_topic(partitions, _size))
    produced = "mqcore_produced_bytes_total", "mqcore_produced_records_total"
    observe(produced[0], "bytes of batches appended", ("topic",), lambda: _by_topic(partitions, _bytes), "counter")
    observe(produced[1], "records appended", ("topic",), lambda: _by_topic(partitions, _records), "counter")
    observe("mqcore_group_memory_bytes", "memory of all groups", (), lambda: [((), groups.memory.used)])
    about_refused = "joins and commits refused because the memory of groups is used up"
    observe("mqcore_group_refused_total", about_refused, (), lambda: [((), groups.memory.refused)], "counter")
    about_lag = "records a group has not committed yet"
    observe("mqcore_group_lag", about_lag, ("group", "topic"), lambda: _lag(partitions, groups))


def _by_topic(partitions: HostedPartitions, measure: Callable[[Partition], int]) -> list[Sample]:
    sums: dict[str, int] = {}
    for partition in partitions:
        sums[partition.topic] = sums.get(partition.topic, 0) + measure(partition)
    return [((topic,), measured) for topic, measured in sums.items()]


def _size(partition: Partition) -> int:
    return partition.log.size_bytes


def _bytes(partition: Partition) -> int:
    return partition.produced_bytes


def _records(partition: Partition) -> int:
    return partition.produced_records


def _lag(partitions: HostedPartitions, groups: GroupCoordinator) -> list[Sample]:
    lags: dict[tuple[str, ...], float] = {}
    for group, name, offset in groups.committed():
        partition = partitions.get(*name)
        if partition is not None:
            lag = max(0, partition.high_watermark - max(offset, partition.log_start_offset))
            lags[group, name.topic] = lags.get((group, name.topic), 0) + lag
    return list(lags.items())
