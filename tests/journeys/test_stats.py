"""Statistics from real topics to a real Postgres: a replay, a stream that is killed, and the page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg
import pytest

from seckill.stack.broker_process import BrokerProcess
from tests.journeys.spark_cluster import spark_cluster
from tests.journeys.statistics_world import (
    BATCHES_OF_STREAM,
    KINDS,
    NO_CODE,
    OF_REPLAY,
    RECORDS,
    TABLES,
    StatisticsWorld,
)
from tests.services import Services
from tests.spark import BEGAN_MS, Sale, make_topics, story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("java"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def world(tmp_path: Path, database: str, shared_broker: BrokerProcess) -> Iterator[StatisticsWorld]:
    """A world without any statistics."""
    yield StatisticsWorld(tmp_path, shared_broker.address, database)
    with psycopg.connect(database) as connection:
        connection.execute(f"TRUNCATE {', '.join(f'analytics_{name}' for name in TABLES)}".encode())


@pytest.fixture(scope="module")
def counted(
    tmp_path_factory: pytest.TempPathFactory, database: str, shared_broker: BrokerProcess, spark: SparkSession
) -> StatisticsWorld:
    """A world in which everything was replayed twice and streamed in small batches, so that duplicates and related
    events are in different batches."""
    base, _, name = database.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE counted TEMPLATE {name}".encode())
    world = StatisticsWorld(tmp_path_factory.mktemp("counted"), shared_broker.address, f"{base}/counted")
    replayed(spark, world)
    replayed(spark, world)
    streamed(spark, world, most_records=20)
    return world


@pytest.fixture(scope="module")
def database(services: Services) -> str:
    """A database of its own, because Spark tasks and processes connect to it by its address."""
    base = f"postgresql://seckill@127.0.0.1:{services.postgres_port}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE statistics")
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "seckill.config.settings",
        "SECKILL_DATABASE_URL": f"{base}/statistics",
    }
    subprocess.run([sys.executable, "-m", "django", "migrate", "-v", "0"], check=True, env=environment)
    return f"{base}/statistics"


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Its topics contain the story and do not change."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), {"auto.create.topics.enable": "false"}) as process:
        make_topics(process.address)
        story().produce(process.address)
        yield process


def replayed(spark: SparkSession, world: StatisticsWorld, from_ms: int | None = None) -> UUID:
    from analytics.jobs.replay import run_replay

    return run_replay(spark, world.kafka, world.database, str(world.folder / "facts"), from_ms).run


def streamed(spark: SparkSession, world: StatisticsWorld, most_records: int = 1_000) -> None:
    """Stream all records in batches, from the position of the checkpoint in the folder."""
    from analytics.jobs.live import StreamJob, StreamPlan

    checkpoint, facts = str(world.folder / "checkpoint"), str(world.folder / "facts")
    plan = StreamPlan(world.kafka, world.database, checkpoint, facts, once=True, most_records=most_records)
    StreamJob(spark, plan, lambda _: None).run()


def test_a_replay_counts_every_event_once_and_replaces_the_previous_one(counted: StatisticsWorld) -> None:
    assert counted.kinds("replay") == KINDS
    assert counted.query("SELECT count(*) FROM analytics_run WHERE kind = 'replay'") == [(1,)]
    assert counted.query(f"SELECT sum(records)::int {OF_REPLAY}") == [(RECORDS,)]
    assert counted.query("SELECT count(*) FROM analytics_staged") == [(0,)]


def test_a_stream_and_a_replay_give_the_same_counts(counted: StatisticsWorld) -> None:
    assert counted.query(f"SELECT count(*) > 2 {BATCHES_OF_STREAM}") == [(True,)]
    live, replay = counted.measured("live"), counted.measured("replay")
    for name, rows in replay.items():
        assert rows, name
        assert live[name] == rows, name


def test_the_page_shows_what_the_tables_say_and_needs_no_network(counted: StatisticsWorld) -> None:
    from analytics import report

    found = report.read_statistics(counted.database, "replay")
    page = report.render_page(found)
    assert "19 requests, 3 reserved, 1 paid" in report.headline(found)
    assert page.count("<svg") == 9
    assert "robot" in page and "no envelope" in page
    for outside in ("http://", "https://"):
        assert outside not in page.replace("http://www.w3.org/", "")
    json.dumps(report.statistics_as_json(found))


def test_a_replay_can_start_at_a_time(spark: SparkSession, world: StatisticsWorld) -> None:
    replayed(spark, world, from_ms=BEGAN_MS + 12 * 3_600_000)
    assert set(world.kinds("replay")) == {"PurchaseRequested"}  # only this topic uses the broker's time


def test_a_stream_that_was_switched_off_catches_up(spark: SparkSession, tmp_path: Path, world: StatisticsWorld) -> None:
    with BrokerProcess(tmp_path / "broker", {"auto.create.topics.enable": "false"}) as broker:
        make_topics(broker.address)
        own = replace(world, kafka=broker.address)
        sale = Sale()
        for number in range(5):
            sale.asks(f"early-{number}")
        sale.produce(broker.address)
        streamed(spark, own)
        for number in range(7):
            sale.asks(f"later-{number}")
        sale.asks("early-0")  # the same request again, much later
        sale.produce(broker.address)
        streamed(spark, own)
        assert own.kinds("live") == {"PurchaseRequested": 12}
        assert own.query("SELECT sum(records)::int FROM analytics_partition") == [(13,)]


def test_a_batch_is_added_once_however_often_it_is_repeated(spark: SparkSession, world: StatisticsWorld) -> None:
    """The control: without its row in analytics_batch it is added twice."""
    from analytics import schemas, sinks, sources
    from analytics.jobs.replay import measured_frames

    run, url = UUID(int=1), world.database
    sinks.register_run(url, run, "replay", {})
    frames, kept = measured_frames(
        schemas.parse_events(sources.read_batch(spark, world.kafka, sources.find_cut(world.kafka)))
    )
    assert sinks.add_counts(url, run, 0, frames)
    assert not sinks.add_counts(url, run, 0, frames)
    assert world.kinds("replay") == KINDS
    delete_batches(world)
    assert sinks.add_counts(url, run, 0, frames)
    assert world.kinds("replay") == {kind: 2 * count for kind, count in KINDS.items()}
    kept.unpersist()


def delete_batches(world: StatisticsWorld) -> None:
    with psycopg.connect(world.database) as connection:
        connection.execute("DELETE FROM analytics_batch")


def test_a_stream_killed_before_and_after_its_commit_counts_everything_once(
    spark: SparkSession, world: StatisticsWorld
) -> None:
    batches = ("live", "--once", "--most", "25", "--set", "spark.sql.shuffle.partitions=1", *NO_CODE)
    before = world.stats(*batches, fault="analytics.before_commit")
    assert before.returncode == -signal.SIGKILL, before.stderr
    assert world.query("SELECT count(*) FROM analytics_batch") == [(0,)]
    assert world.query("SELECT count(*) > 0 FROM analytics_staged") == [(True,)]  # the process died in the middle
    after = world.stats(*batches, fault="analytics.after_commit")
    assert after.returncode == -signal.SIGKILL, after.stderr
    assert world.query("SELECT count(*) FROM analytics_batch") == [(1,)]  # committed, but Spark does not know
    whole = world.stats(*batches)
    assert whole.returncode == 0, whole.stderr
    assert world.kinds("live") == KINDS
    assert world.query("SELECT sum(records)::int FROM analytics_partition") == [(RECORDS,)]
    facts = spark.read.parquet(str(world.folder / "stats" / "facts"))
    assert facts.count() == facts.select("event_id").distinct().count() == sum(KINDS.values()) + 2
    assert "0 behind" in whole.stdout
    for noise in ("WARN", "Exception", "incubator", "log4j"):
        assert noise not in whole.stderr + whole.stdout


def test_invalid_commands_explain_the_error_in_one_line(world: StatisticsWorld, tmp_path: Path) -> None:
    nothing = replace(world, kafka="127.0.0.1:9")
    for words, why in (
        (("replay", "--from", "yesterday"), "must be a time such as"),
        (("report",), "no statistics have been made yet"),
        (("replay", "--set", "memory=4g"), "must be spark.NAME=VALUE"),
    ):
        done = world.stats(*words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert why in done.stderr
    done = nothing.stats("live", "--once")
    assert done.returncode == 1
    assert "no broker answers at 127.0.0.1:9" in done.stderr


def test_a_cluster_gives_the_same_counts_as_one_machine(world: StatisticsWorld, tmp_path: Path) -> None:
    """With one worker; tests/journeys/test_stats_cluster.py has two, and kills one."""
    with spark_cluster(tmp_path, workers=1, cores=2, memory="1g") as cluster:
        done = world.stats(
            "replay", "--master", cluster.address, "--set", "spark.driver.host=127.0.0.1",
            "--set", "spark.executor.memory=512m", "--set", "spark.sql.shuffle.partitions=2", *NO_CODE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert world.kinds("replay") == KINDS
        assert world.query(f"SELECT sum(records)::int {OF_REPLAY}") == [(RECORDS,)]
        assert cluster.worked() == {0}, "no executor of the cluster did any work"


@pytest.mark.needs("java", "mvn")
def test_apache_kafka_gives_the_same_counts(spark: SparkSession, world: StatisticsWorld, tmp_path: Path) -> None:
    from tests.conformance.peer import ApacheKafka

    with ApacheKafka(tmp_path / "kafka", {"auto.create.topics.enable": "false"}) as kafka:
        make_topics(kafka.address)
        story().produce(kafka.address)
        streamed(spark, replace(world, kafka=kafka.address))
        assert world.kinds("live") == KINDS
