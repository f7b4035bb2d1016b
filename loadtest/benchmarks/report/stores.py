"""Shell: writes a sample sale into the stores that `seckill report` reads: topics, Postgres, Redis and logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from psycopg import sql
from redis import Redis

from loadtest.benchmarks.report.sale import SALE, SKU, SampleSale
from loadtest.benchmarks.report.tables import tables
from loadtest.client_log import ClientLog, declare
from seckill.config.kafka_clients import client_options
from seckill.messaging.topics import REQUEST_TOPICS, TOPICS
from seckill.report.sources.collect import consumer_groups

Item = TypeVar("Item")
Progress = Callable[[str, int], None]
"""Called with the name of what is being written, and the number of new items."""

EACH = 10_000


def write(sale: SampleSale, environment: dict[str, str], folder: Path, tell: Progress) -> None:
    ends = _topics(sale, environment["KAFKA_BOOTSTRAP_SERVERS"], tell)
    _tables(sale, environment["SECKILL_DATABASE_URL"], ends, tell)
    _gate(sale, environment["SECKILL_GATE_REDIS_URL"])
    _commit(environment["KAFKA_BOOTSTRAP_SERVERS"], ends)
    _logs(sale, folder, tell)


def _counted(items: Iterable[Item], what: str, tell: Progress) -> Iterator[Item]:
    number = 0
    for number, item in enumerate(items, start=1):
        yield item
        if number % EACH == 0:
            tell(what, EACH)
    tell(what, number % EACH)


def _topics(sale: SampleSale, bootstrap: str, tell: Progress) -> Counter[TopicPartition]:
    """Returns the end of each partition."""
    _own_times(bootstrap)
    producer = KafkaProducer(
        **client_options(bootstrap),
        acks="all",
        linger_ms=20,
        batch_size=262_144,
        max_in_flight_requests_per_connection=1,
    )
    ends: Counter[TopicPartition] = Counter()
    last = {}
    for record in _counted(sale.records(), "records", tell):
        place = TopicPartition(record.topic, record.partition)
        last[place] = producer.send(
            record.topic, key=record.key, value=record.value, partition=record.partition, timestamp_ms=record.at_ms
        )
        ends[place] += 1
    producer.flush()
    producer.close()
    for place, future in last.items():
        if future.get(10).offset != ends[place] - 1:
            raise RuntimeError(f"{place} was not empty, or has lost records")
    return ends


def _own_times(bootstrap: str) -> None:
    """Records have the timestamps of the sample sale, not the time of writing."""
    admin = KafkaAdminClient(**client_options(bootstrap))
    own = {"message.timestamp.type": "CreateTime"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, own) for topic in REQUEST_TOPICS])
    admin.close()


def _tables(sale: SampleSale, url: str, ends: Counter[TopicPartition], tell: Progress) -> None:
    with psycopg.connect(url) as connection:
        for table, columns, rows in tables(sale):
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
            with connection.cursor().copy(query) as copy:
                for row in _counted(rows, "rows", tell):
                    copy.write_row(row)
        for place, end in ends.items():
            for group in _readers(place.topic):
                connection.execute(
                    "INSERT INTO streams_offset (cluster_id, topic_id, topic, partition, consumer_group, epoch,"
                    " next_offset, attempting_until, crash_count, single_step_until)"
                    " VALUES ('bench', %s, %s, %s, %s, 1, %s, 0, 0, 0)",
                    [place.topic, place.topic, place.partition, group, end],
                )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


def _readers(topic: str) -> list[str]:
    return [group for group in TOPICS[topic].readers if group in consumer_groups()]


def _gate(sale: SampleSale, url: str) -> None:
    """The set of active buyers: the holders who paid."""
    client: Redis = Redis.from_url(url)
    base = f"sale:{{{SALE}}}:gate:{SKU}:1"
    client.set(f"{base}:free", sale.cancelled)
    for holder in sale.holders():
        client.hset(f"{base}:granted", holder, 1)
    client.close()


def _commit(bootstrap: str, ends: Counter[TopicPartition]) -> None:
    admin = KafkaAdminClient(**client_options(bootstrap))
    for group in consumer_groups():
        offsets = {
            place: OffsetAndMetadata(end, "", -1) for place, end in ends.items() if group in TOPICS[place.topic].readers
        }
        admin.alter_group_offsets(group, offsets)
    admin.close()


def _logs(sale: SampleSale, folder: Path, tell: Progress) -> None:
    log = folder / "evidence" / "crowd.jsonl"
    declare(log, SALE, sale.requests)
    written = ClientLog(log, sale=SALE, buyers=sale.requests, url="none", seed=0)
    for what, at_ms, fields in _counted(sale.crowd(), "lines", tell):
        written.write(what, at_ms, **fields)
    written.close()
    sandbox = folder / "sandbox"
    sandbox.mkdir()
    for name, lines in (("provider", sale.provider()), ("sinks", sale.sinks())):
        with (sandbox / f"{name}.jsonl").open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
    run = folder / "run"
    run.mkdir()
    (run / "about.json").write_text(json.dumps({"requests": sale.requests}) + "\n")
