"""Shell: the metrics that are computed when the metrics page is requested, instead of being counted as they happen."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.disk.port import Disk
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.metrics import Metrics, Sample
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.partition import Partition
from mqcore.raft.quorum import Quorum


def declare_gauges(
    metrics: Metrics, partitions: HostedPartitions, groups: GroupCoordinator, disk: Disk, quorum: Quorum
) -> None:
    def offline() -> int:
        failures = len(partitions.open_failures) + sum(partition.is_offline for partition in partitions)
        return failures + quorum.is_offline

    def log_bytes() -> list[Sample]:
        return [((quorum.name.topic,), quorum.log.size_bytes), *_by_topic(partitions, _size)]

    add = metrics.add_computed
    add("mqcore_partitions", "partitions of this broker", (), lambda: [((), len(partitions))])
    add("mqcore_partitions_offline", "partitions that are offline", (), lambda: [((), offline())])
    add("mqcore_disk_free_bytes", "free bytes of the data folder", (), lambda: [((), disk.free_bytes())])
    add("mqcore_log_bytes", "bytes of log segments", ("topic",), log_bytes)
    produced = "mqcore_produced_bytes_total", "mqcore_produced_records_total"
    add(produced[0], "bytes of appended batches", ("topic",), lambda: _by_topic(partitions, _bytes), "counter")
    add(produced[1], "appended records", ("topic",), lambda: _by_topic(partitions, _records), "counter")
    add("mqcore_group_memory_bytes", "memory used by all groups", (), lambda: [((), groups.memory.used)])
    refusals_help = "joins and commits refused because the memory for groups is used up"
    add("mqcore_group_refused_total", refusals_help, (), lambda: [((), groups.memory.refused)], "counter")
    lag_help = "records that a group has not committed yet"
    add("mqcore_group_lag", lag_help, ("group", "topic"), lambda: _lag(partitions, groups))


def _by_topic(partitions: HostedPartitions, measure: Callable[[Partition], int]) -> list[Sample]:
    sums: dict[str, int] = {}
    for partition in partitions:
        sums[partition.topic] = sums.get(partition.topic, 0) + measure(partition)
    return [((topic,), measured) for topic, measured in sums.items()]


def _size(partition: Partition) -> int:
    return partition.size_bytes


def _bytes(partition: Partition) -> int:
    return partition.appender.produced_bytes


def _records(partition: Partition) -> int:
    return partition.appender.produced_records


def _lag(partitions: HostedPartitions, groups: GroupCoordinator) -> list[Sample]:
    lags: dict[tuple[str, ...], float] = {}
    for group, name, offset in groups.committed_offsets():
        partition = partitions.get(*name)
        if partition is not None:
            lag = max(0, partition.high_watermark - max(offset, partition.log_start_offset))
            lags[group, name.topic] = lags.get((group, name.topic), 0) + lag
    return list(lags.items())
