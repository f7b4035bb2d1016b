"""Shell: the metrics of a broker's replicas and of the metadata quorum, computed when the metrics page is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from mqcore.controller.image import ClusterImage
from mqcore.identity import BrokerId, LeaderEpoch, Offset
from mqcore.metrics import Metrics, Sample
from mqcore.partitions.hosted import HostedPartitions
from mqcore.partitions.leader import LeaderState
from mqcore.partitions.partition import Partition


class Quorum(Protocol):
    @property
    def leader(self) -> BrokerId | None: ...

    @property
    def epoch(self) -> LeaderEpoch: ...

    @property
    def is_active(self) -> bool: ...

    @property
    def high_watermark(self) -> Offset: ...


class Assignments(Protocol):
    terms_begun: int
    isr_shrinks: int
    isr_expands: int


def declare_cluster_gauges(
    metrics: Metrics,
    image: ClusterImage,
    partitions: HostedPartitions,
    quorum: Quorum,
    assignments: Assignments,
    applied: Callable[[], int],
) -> None:
    add = metrics.add_computed

    def count(name: str, meaning: str, is_counted: Callable[[Partition], bool]) -> None:
        add(name, meaning, (), lambda: [((), sum(map(is_counted, partitions)))])

    count("mqcore_partitions_led", "partitions that this broker leads", lambda partition: partition.leads)
    count(
        "mqcore_partitions_under_replicated",
        "partitions led here, some of whose replicas are not in sync",
        _is_under_replicated,
    )
    count(
        "mqcore_partitions_under_min_isr",
        "partitions led here that refuse acks=all, because fewer replicas than min.insync.replicas are in sync",
        lambda partition: partition.leads and not partition.has_enough_replicas,
    )
    add(
        "mqcore_partitions_without_leader",
        "partitions of the cluster that no broker leads",
        (),
        lambda: [((), sum(not partition.has_leader for _, partition in image.partitions()))],
    )
    add(
        "mqcore_replica_lag_records",
        "records that a follower has not copied from this leader yet, the largest of a topic's partitions",
        ("topic", "broker"),
        lambda: list(_lags(partitions)),
    )
    for name, meaning, read in (
        ("mqcore_terms_begun_total", "times that this broker began to lead a partition", "terms_begun"),
        (
            "mqcore_isr_shrinks_total",
            "times that a replica left the in-sync replicas of a partition led here",
            "isr_shrinks",
        ),
        (
            "mqcore_isr_expands_total",
            "times that a replica joined the in-sync replicas of a partition led here",
            "isr_expands",
        ),
    ):
        add(name, meaning, (), partial(_count_of, assignments, read), "counter")
    add(
        "mqcore_brokers_active",
        "brokers that are registered and not fenced",
        (),
        lambda: [((), sum(broker.is_active for broker in image.brokers.values()))],
    )
    add(
        "mqcore_quorum_leader",
        "node id of the active controller, -1 if this node knows none",
        (),
        lambda: [((), -1 if quorum.leader is None else quorum.leader)],
    )
    add("mqcore_quorum_epoch", "epoch of the metadata quorum", (), lambda: [((), quorum.epoch)])
    add("mqcore_quorum_is_active", "1 if this node is the active controller", (), lambda: [((), quorum.is_active)])
    add("mqcore_quorum_high_watermark", "end of the committed metadata", (), lambda: [((), quorum.high_watermark)])
    add("mqcore_metadata_applied", "end of the metadata in effect on this broker", (), lambda: [((), applied())])


def _count_of(assignments: Assignments, name: str) -> list[Sample]:
    return [((), getattr(assignments, name))]


def _is_under_replicated(partition: Partition) -> bool:
    term = partition.term
    return partition.leads and term is not None and len(term.isr) < len(term.replicas)


def _lags(partitions: HostedPartitions) -> Iterator[Sample]:
    lags: dict[tuple[str, ...], float] = {}
    for partition in partitions:
        role = partition.role
        if isinstance(role, LeaderState):
            for broker, follower in role.followers.items():
                key = partition.topic, str(broker)
                behind = partition.log_end_offset - (follower.end or partition.log_start_offset)
                lags[key] = max(lags.get(key, 0), behind)
    yield from lags.items()
