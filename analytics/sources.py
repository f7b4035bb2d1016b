"""Shell: where frames come from: topics, as a batch between two cuts or as a stream.

Any Kafka does, the bundled broker or a cluster: Spark's own connector reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analytics.faults import StatsFault
from seckill.streams import cluster
from seckill.topics import TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP_MS = 5_000
Offsets = Mapping[str, Mapping[int, int]]
"""Of each topic, of each partition."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What of the topics is looked at: from `starts`, up to but not including `ends`."""

    starts: Offsets
    ends: Offsets

    @property
    def records(self) -> int:
        return sum(
            end - self.starts[topic][number] for topic, ends in self.ends.items() for number, end in ends.items()
        )


def cut(bootstrap_servers: str, from_ms: int | None = None) -> Cut:
    """All there is now, or all from a time on; `StatsFault` if nobody answers or a topic is not there."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers, client_id="stats", bootstrap_timeout_ms=BOOTSTRAP_MS
        )
    except KafkaError as fault:
        raise StatsFault(f"no broker answers at {bootstrap_servers} ({fault}); is the stack up?") from fault
    try:
        partitions = []
        for topic in TOPICS:
            found = sorted(consumer.partitions_for_topic(topic) or ())
            if not found:
                raise StatsFault(f"{bootstrap_servers} has no topic {topic}; `seckill topics` makes it")
            partitions += [TopicPartition(topic, number) for number in found]
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        if from_ms is not None:
            places = consumer.offsets_for_times(dict.fromkeys(partitions, from_ms))
            starts = {each: place.offset if place else ends[each] for each, place in places.items()}
    except KafkaError as fault:
        raise StatsFault(f"the broker at {bootstrap_servers} does not answer any more: {fault}") from fault
    finally:
        consumer.close()
    return Cut(_by_topic(starts), _by_topic(ends))


def identity(bootstrap_servers: str) -> dict[str, str]:
    """The ids of the cluster and of its topics: two logs of one name are two logs."""
    from kafka.errors import KafkaError

    try:
        found = cluster.describe(bootstrap_servers, TOPICS.values())
    except KafkaError as fault:
        raise StatsFault(f"the broker at {bootstrap_servers} does not say which topics it has: {fault}") from fault
    return {"cluster": found.id, **found.topic_ids}


def batch(spark: SparkSession, bootstrap_servers: str, cut: Cut) -> DataFrame:
    reader = spark.read.format("kafka").options(**_options(bootstrap_servers))
    return _records(reader.options(startingOffsets=_written(cut.starts), endingOffsets=_written(cut.ends)).load())


def stream(spark: SparkSession, bootstrap_servers: str, most_records: int) -> DataFrame:
    """From the start of the log when its checkpoint is new. Records that retention took while nobody read are a hole in
    the offsets, and counted as one; they are no reason to stop."""
    reader = spark.readStream.format("kafka").options(**_options(bootstrap_servers))
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(most_records), failOnDataLoss="false")
    # Each look at a batch reads every partition: in as few tasks as there are cores, not in one for each partition.
    return _records(reader.load()).coalesce(spark.sparkContext.defaultParallelism)


def _options(bootstrap_servers: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": ",".join(TOPICS),
        "kafka.isolation.level": "read_committed",
        # Each task reads up to an end that is known, and asks once more there: half a second for nothing, 48 times.
        "kafka.fetch.max.wait.ms": "10",
    }


def _records(loaded: DataFrame) -> DataFrame:
    """`read_at` is the time of the batch, whatever the record says of its own: it only ever grows, and is what a stream
    forgets by. It is written so that it depends on the record: a plain constant Spark would move past its watermark."""
    from pyspark.sql import functions as f

    now = f.current_timestamp()
    return loaded.select(
        "topic",
        "partition",
        "offset",
        f.unix_millis("timestamp").alias("log_ms"),
        f.greatest(now, f.least(now, f.col("timestamp"))).alias("read_at"),
        "value",
    )


def _by_topic(offsets: Mapping[object, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for partition, offset in offsets.items():
        found.setdefault(partition.topic, {})[partition.partition] = offset  # type: ignore[attr-defined]
    return found


def _written(offsets: Offsets) -> str:
    return json.dumps({topic: {str(number): at for number, at in rows.items()} for topic, rows in offsets.items()})
