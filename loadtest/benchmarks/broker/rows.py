"""The table of measurements: loads, and the figures of each. Goals are ratios of mqcore to Kafka.

The goal for batches is Kafka's throughput, or 0.95 where the client is the limit (kafka-python), because two runs of
one client differ by that much. The goal for unbatched requests is 0.7, because each request costs time in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MORE, LESS = "more", "less"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the result."""

    key: str
    title: str
    unit: str
    source: str  # field of a job's result, or one that `measurement` adds
    better: str = MORE
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """One job on every broker, and its figures."""

    key: str
    job: str
    figures: tuple[Figure, ...]
    spec: Mapping[str, Any] = field(default_factory=dict)
    redis_job: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # of the topic
    filled: int = 0  # records to write into the topic beforehand, for all repetitions
    at_half_load: bool = False
    quick: bool = False


SIZES = {100: "100 B", 1024: "1 KB", 10240: "10 KB"}
_STORED = {100: 2_500_000, 1024: 600_000, 10240: 60_000}
_DURABLE = {"flush.messages": "1"}


def _megabytes(key: str, title: str, goal: float = 1.0) -> Figure:
    return Figure(key, title, "MB/s", "mb_per_s", MORE, goal)


def _cpu(key: str, title: str) -> Figure:
    return Figure(key, title, "CPU s/GB", "broker_s_per_gb", LESS)


def _latencies(key: str, title: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{key}-p50", f"{title}, p50", "ms", "p50", LESS),
        Figure(f"{key}-p99", f"{title}, p99", "ms", "p99", LESS, 0.5),
        Figure(f"{key}-p999", f"{title}, p99.9", "ms", "p999", LESS),
    )


def _produce() -> list[Load]:
    loads = []
    for size, name in SIZES.items():
        for acks in ("1", "all"):
            key = f"produce-librdkafka-{size}-acks-{acks}"
            figures: tuple[Figure, ...] = (_megabytes(key, f"produce {name}, librdkafka, acks={acks}"),)
            if (size, acks) == (1024, "1"):
                figures += (_cpu("cpu-produce", f"CPU of the broker, produce {name}"),)
            loads.append(
                Load(
                    key,
                    "librdkafka-produce",
                    figures,
                    {"size": size, "acks": acks},
                    redis_job="redis-produce" if acks == "1" else None,
                    quick=size == 1024,
                )
            )
    for size, acks in ((100, "1"), (1024, "1"), (1024, "all"), (10240, "1")):
        key = f"produce-kafka-python-{size}-acks-{acks}"
        title = f"produce {SIZES[size]}, kafka-python, acks={acks}"
        loads.append(Load(key, "kafka-python-produce", (_megabytes(key, title, 0.95),), {"size": size, "acks": acks}))
    key = "produce-raw-1024"
    raw = {"size": 1024, "batch": 64, "connections": 16, "acks": "1"}
    loads.append(Load(key, "raw-produce", (_megabytes(key, "produce 1 KB, raw batches of 64 KB"),), raw))
    key = "produce-12-partitions"
    spec = {"size": 1024, "partitions": 12, "acks": "all"}
    figures = (_megabytes(key, "produce 1 KB, librdkafka, 12 partitions"),)
    loads.append(Load(key, "librdkafka-produce", figures, spec))
    key = "produce-durable"
    figures = (_megabytes(key, "produce 1 KB, librdkafka, every batch synced"),)
    spec = {"size": 1024, "acks": "all"}
    loads.append(Load(key, "librdkafka-produce", figures, spec, redis_job="redis-produce", settings=_DURABLE))
    return loads


def _consume() -> list[Load]:
    loads = []
    for size, name in SIZES.items():
        key = f"consume-librdkafka-{size}"
        figures: tuple[Figure, ...] = (_megabytes(key, f"consume {name}, librdkafka"),)
        if size == 1024:
            figures += (_cpu("cpu-consume", f"CPU of the broker, consume {name}"),)
        loads.append(
            Load(
                key,
                "librdkafka-consume",
                figures,
                {"size": size, "records": _STORED[size]},
                redis_job="redis-consume",
                filled=_STORED[size],
                quick=size == 1024,
            )
        )
    for size, name in SIZES.items():
        key = f"consume-kafka-python-{size}"
        spec = {"size": size, "records": _STORED[size]}
        figures = (_megabytes(key, f"consume {name}, kafka-python", 0.95),)
        loads.append(Load(key, "kafka-python-consume", figures, spec, filled=_STORED[size]))
    key = "consume-raw-1024"
    figures = (_megabytes(key, "consume 1 KB, raw"),)
    spec = {"size": 1024, "connections": 4}
    loads.append(Load(key, "raw-fetch", figures, spec, filled=300_000))
    key = "consume-12-partitions"
    figures = (_megabytes(key, "consume 1 KB, librdkafka, 12 partitions"),)
    spec = {"size": 1024, "records": 600_000, "partitions": 12}
    loads.append(Load(key, "librdkafka-consume", figures, spec, filled=600_000))
    return loads


def _unbatched() -> list[Load]:
    loads = []
    for acks in ("1", "all"):
        key = f"unbatched-acks-{acks}"
        figure = Figure(
            key, f"one 100 B record a request, 64 connections, acks={acks}", "requests/s", "per_s", MORE, 0.7
        )
        spec = {"size": 100, "batch": 1, "connections": 64, "partitions": 12, "acks": acks}
        redis = "redis-unbatched" if acks == "1" else None
        loads.append(Load(key, "raw-produce", (figure,), spec, redis_job=redis, quick=acks == "1"))
    return loads


def _latency() -> list[Load]:
    spec = {"size": 1024, "acks": "1"}
    return [
        Load(
            "latency-half", "latency", _latencies("latency-half", "end to end at half load"), spec,
            redis_job="latency", at_half_load=True, quick=True,
        ),
        Load(
            "latency-2000", "latency", _latencies("latency-2000", "end to end at 2,000/s"), {**spec, "rate": 2000},
            redis_job="latency",
        ),
    ]  # fmt: skip


LOADS: tuple[Load, ...] = (*_unbatched(), *_latency(), *_produce(), *_consume())

COLD_START = Figure("cold-start", "cold start, until metadata are served", "s", "", LESS, 0.1)
IDLE_MEMORY = Figure("rss-idle", "memory, just started", "MB", "", LESS, 0.2)
LOADED_MEMORY = Figure("rss-loaded", "memory, after all loads", "MB", "", LESS, 0.2)
COPY_IN = Figure("limit-in", "limit of the machine: socket → file", "MB/s", "mb_per_s")
COPY_OUT = Figure("limit-out", "limit of the machine: file → socket", "MB/s", "mb_per_s")


def chosen(patterns: list[str], quick: bool) -> list[Load]:
    """Loads whose key, or a key of one of their figures, begins with one of the patterns."""
    if not patterns:
        return [load for load in LOADS if load.quick or not quick]
    return [
        load
        for load in LOADS
        if any(key.startswith(tuple(patterns)) for key in (load.key, *(figure.key for figure in load.figures)))
    ]
