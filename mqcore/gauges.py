"""Shell: what is measured when the page of metrics is asked for, instead of counted as it happens."""

from __future__ import annotations

from mqcore.disk.port import Disk
from mqcore.groups.coordinator import GroupCoordinator
from mqcore.metrics import Metrics, Sample
from mqcore.partitions.hosted import HostedPartitions


def declare(metrics: Metrics, partitions: HostedPartitions, groups: GroupCoordinator, disk: Disk) -> None:
    def offline() -> int:
        return len(partitions.offline) + sum(partition.offline is not None for partition in partitions)

    observe = metrics.observe
    observe("mqcore_partitions", "partitions hosted", (), lambda: [((), len(partitions))])
    observe("mqcore_partitions_offline", "partitions that are offline", (), lambda: [((), offline())])
    observe("mqcore_disk_free_bytes", "free bytes of the data folder", (), lambda: [((), disk.free_bytes())])
    observe("mqcore_log_bytes", "bytes of logs, by topic", ("topic",), lambda: _log_bytes(partitions))
    about_lag = "records a group has not committed yet"
    observe("mqcore_group_lag", about_lag, ("group", "topic"), lambda: _lag(partitions, groups))


def _log_bytes(partitions: HostedPartitions) -> list[Sample]:
    sizes: dict[str, int] = {}
    for partition in partitions:
        sizes[partition.topic] = sizes.get(partition.topic, 0) + partition.log.size_bytes
    return [((topic,), size) for topic, size in sizes.items()]


def _lag(partitions: HostedPartitions, groups: GroupCoordinator) -> list[Sample]:
    lags: dict[tuple[str, ...], float] = {}
    for group, name, offset in groups.committed():
        partition = partitions.get(*name)
        if partition is not None:
            lag = max(0, partition.high_watermark - max(offset, partition.log_start_offset))
            lags[group, name.topic] = lags.get((group, name.topic), 0) + lag
    return list(lags.items())
