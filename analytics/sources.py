"""Shell: read topics into frames, as a batch between two offsets or as a stream.

Spark's own connector reads them, so any Kafka works, the bundled broker or a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analytics.faults import StatsFault
from seckill.config.kafka_clients import client_options, spark_options
from seckill.messaging import kafka_cluster
from seckill.messaging.kafka_acls import SPARK_GROUPS
from seckill.messaging.topics import TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP_MS = 5_000
Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The offsets to read: from `starts` up to but not including `ends`."""

    starts: Offsets
    ends: Offsets

    @property
    def records(self) -> int:
        return sum(
            end - self.starts[topic][number] for topic, ends in self.ends.items() for number, end in ends.items()
        )


def find_cut(bootstrap_servers: str, from_ms: int | None = None) -> Cut:
    """All current records, or those from a time on. Raises `StatsFault` if no broker answers or a topic is missing."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    try:
        consumer = KafkaConsumer(
            **client_options(bootstrap_servers), client_id="stats", bootstrap_timeout_ms=BOOTSTRAP_MS
        )
    except KafkaError as fault:
        raise StatsFault(f"no broker answers at {bootstrap_servers} ({fault}); is the stack up?") from fault
    try:
        partitions = []
        for topic in TOPICS:
            found = sorted(consumer.partitions_for_topic(topic) or ())
            if not found:
                raise StatsFault(f"{bootstrap_servers} has no topic {topic}; create it with `seckill topics`")
            partitions += [TopicPartition(topic, number) for number in found]
        starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        if from_ms is not None:
            places = consumer.offsets_for_times(dict.fromkeys(partitions, from_ms))
            starts = {each: place.offset if place else ends[each] for each, place in places.items()}
    except KafkaError as fault:
        raise StatsFault(f"the broker at {bootstrap_servers} stopped answering: {fault}") from fault
    finally:
        consumer.close()
    return Cut(_by_topic(starts), _by_topic(ends))


def log_identity(bootstrap_servers: str) -> dict[str, str]:
    """The ids of the cluster and its topics, because a topic that was created again is another log with the same
    name."""
    from kafka.errors import KafkaError

    try:
        found = kafka_cluster.describe_cluster(bootstrap_servers, TOPICS.values())
    except KafkaError as fault:
        raise StatsFault(f"the broker at {bootstrap_servers} does not describe its topics: {fault}") from fault
    return {"cluster": found.id, **found.topic_ids}


def read_batch(spark: SparkSession, bootstrap_servers: str, cut: Cut) -> DataFrame:
    reader = spark.read.format("kafka").options(**_options(bootstrap_servers))
    return _records(
        reader.options(startingOffsets=_offsets_json(cut.starts), endingOffsets=_offsets_json(cut.ends)).load()
    )


def read_stream(spark: SparkSession, bootstrap_servers: str, most_records: int) -> DataFrame:
    """A new checkpoint starts at the beginning of the log. Records that retention deleted before they were read appear
    as missing offsets in the statistics; they do not stop the stream."""
    reader = spark.readStream.format("kafka").options(**_options(bootstrap_servers))
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(most_records), failOnDataLoss="false")
    # Every pass over a batch reads all partitions, so use one task per core instead of one per partition.
    return _records(reader.load()).coalesce(spark.sparkContext.defaultParallelism)


def _options(bootstrap_servers: str) -> dict[str, str]:
    return {
        **spark_options(bootstrap_servers),
        "groupIdPrefix": SPARK_GROUPS,
        "subscribe": ",".join(TOPICS),
        "kafka.isolation.level": "read_committed",
        # Each task fetches once more at its known end. The default wait there would cost half a second, 48 times.
        "kafka.fetch.max.wait.ms": "10",
    }


def _records(loaded: DataFrame) -> DataFrame:
    """`read_at` is the time of the batch, which only grows; a stream expires its state by it. The expression refers to
    the record on purpose, because Spark would move a plain constant past the watermark."""
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


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(number): at for number, at in rows.items()} for topic, rows in offsets.items()})
