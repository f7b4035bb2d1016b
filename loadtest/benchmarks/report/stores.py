"""Shell: writes a story into the real stores: topics, Postgres, Redis, logs: what `seckill report` reads."""

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

from loadtest.ledger import ClientLog, declare
from loadtest.report.sale import SALE, SKU, Story
from loadtest.report.tables import tables
from seckill.consistency.sources.collect import groups
from seckill.topics import QUEUES, TOPICS

Item = TypeVar("Item")
Progress = Callable[[str, int], None]
"""What is being written, and so much more of it."""

EACH = 10_000


def write(story: Story, environment: dict[str, str], folder: Path, tell: Progress) -> None:
    ends = _topics(story, environment["KAFKA_BOOTSTRAP_SERVERS"], tell)
    _tables(story, environment["SECKILL_DATABASE_URL"], ends, tell)
    _gate(story, environment["SECKILL_GATE_REDIS_URL"])
    _commit(environment["KAFKA_BOOTSTRAP_SERVERS"], ends)
    _logs(story, folder, tell)


def _counted(items: Iterable[Item], what: str, tell: Progress) -> Iterator[Item]:
    number = 0
    for number, item in enumerate(items, start=1):
        yield item
        if number % EACH == 0:
            tell(what, EACH)
    tell(what, number % EACH)


def _topics(story: Story, bootstrap: str, tell: Progress) -> Counter[TopicPartition]:
    """Where each partition ends then."""
    _own_times(bootstrap)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=20,
        batch_size=262_144,
        max_in_flight_requests_per_connection=1,
    )
    ends: Counter[TopicPartition] = Counter()
    last = {}
    for record in _counted(story.records(), "records", tell):
        place = TopicPartition(record.topic, record.partition)
        last[place] = producer.send(
            record.topic, key=record.key, value=record.value, partition=record.partition, timestamp_ms=record.at_ms
        )
        ends[place] += 1
    producer.flush()
    producer.close()
    for place, future in last.items():
        if future.get(10).offset != ends[place] - 1:
            raise RuntimeError(f"{place} was not empty, or has lost something")
    return ends


def _own_times(bootstrap: str) -> None:
    """Records keep the times of the story: it is written in fewer seconds, or more, than it lasts."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    own = {"message.timestamp.type": "CreateTime"}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, own) for topic in QUEUES])
    admin.close()


def _tables(story: Story, url: str, ends: Counter[TopicPartition], tell: Progress) -> None:
    with psycopg.connect(url) as connection:
        for table, columns, rows in tables(story):
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
            with connection.cursor().copy(query) as copy:
                for row in _counted(rows, "rows", tell):
                    copy.write_row(row)
        for place, end in ends.items():
            for group in _readers(place.topic):
                connection.execute(
                    "INSERT INTO streams_offset (cluster_id, topic_id, topic, partition, consumer_group, epoch,"
                    " next_offset, trying_to, deaths, careful_to) VALUES ('bench', %s, %s, %s, %s, 1, %s, 0, 0, 0)",
                    [place.topic, place.topic, place.partition, group, end],
                )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")


def _readers(topic: str) -> list[str]:
    return [group for group in TOPICS[topic].readers if group in groups()]


def _gate(story: Story, url: str) -> None:
    """Holders have paid: whoever is active stands in it."""
    client: Redis = Redis.from_url(url)
    base = f"sale:{{{SALE}}}:gate:{SKU}:1"
    client.set(f"{base}:free", story.cancelled)
    for holder in story.holders():
        client.hset(f"{base}:granted", holder, 1)
    client.close()


def _commit(bootstrap: str, ends: Counter[TopicPartition]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    for group in groups():
        offsets = {
            place: OffsetAndMetadata(end, "", -1) for place, end in ends.items() if group in TOPICS[place.topic].readers
        }
        admin.alter_group_offsets(group, offsets)
    admin.close()


def _logs(story: Story, folder: Path, tell: Progress) -> None:
    log = folder / "evidence" / "crowd.jsonl"
    declare(log, SALE, story.requests)
    written = ClientLog(log, sale=SALE, buyers=story.requests, url="none", seed=0)
    for what, at_ms, fields in _counted(story.crowd(), "lines", tell):
        written.write(what, at_ms, **fields)
    written.close()
    sandbox = folder / "sandbox"
    sandbox.mkdir()
    for name, lines in (("provider", story.provider()), ("sinks", story.sinks())):
        with (sandbox / f"{name}.jsonl").open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
    run = folder / "run"
    run.mkdir()
    (run / "about.json").write_text(json.dumps({"requests": story.requests}) + "\n")
