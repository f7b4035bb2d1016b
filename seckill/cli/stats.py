"""Shell: `seckill stats`: statistics of the sale, computed by Spark from its topics."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seckill.cli.context import CommandError, data_folder, use_stack_addresses
from seckill.cli.kafka_options import Kafka, KafkaConfig, use_cluster
from seckill.cli.output import console, print_json

if TYPE_CHECKING:
    from seckill.config.environment import Environment

SERVICE = "analytics"
stats = typer.Typer(no_args_is_help=True, help="Statistics of the sale, computed by Spark from its topics.")

Master = Annotated[str, typer.Option(help="address of a Spark cluster, or local[*] for this machine")]
SparkSettings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a Spark setting: spark.driver.memory=4g")
]
Facts = Annotated[
    str | None,
    typer.Option(metavar="FOLDER", show_default=False,
                 help="where Parquet files go; any address that Spark knows [default: below --data]"),
]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.add_typer(stats, name="stats")


@stats.command()
def fetch() -> None:
    """Download Spark's Kafka connector, once. The other commands need no network."""
    from analytics import spark_jars
    from analytics.faults import StatsFault

    try:
        paths = spark_jars.fetch_jars(lambda text: print(f"{text} …", flush=True))
    except StatsFault as fault:
        raise CommandError(str(fault)) from fault
    print(f"{len(paths)} jars with correct checksums in {paths[0].parent}")


@stats.command()
def replay(
    master: Master = "local[*]",
    settings: SparkSettings = None,
    facts: Facts = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", show_default=False,
                     help="only records from this time on: 2026-11-11T20:00:00+08:00, or milliseconds since 1970"),
    ] = None,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
) -> None:  # fmt: skip
    """Count everything in the topics from the start, and end."""
    import psycopg
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from analytics import session, spark_jars
    from analytics.faults import StatsFault, error_summary
    from analytics.jobs.replay import run_replay
    from analytics.progress import progress_bar

    use_cluster(kafka, kafka_config, SERVICE)
    environment, folder = _environment(), _statistics_folder()
    from_ms = None if since is None else parse_time_ms(since)
    spark_settings = parse_spark_settings(settings or ())
    began = time.monotonic()
    try:
        spark_jars.checked_jars()
        with progress_bar(console(stderr=True), "starting Spark") as bar:
            spark = session.start_session(master, folder, spark_settings)
            bar.watch(spark.sparkContext)
            try:
                done = run_replay(
                    spark, environment.kafka_bootstrap_servers, environment.database_url,
                    facts or str(folder / "facts"), from_ms, bar.describe,
                )  # fmt: skip
            finally:
                spark.stop()
    except (PySparkException, Py4JError, psycopg.Error) as fault:
        raise CommandError(f"the replay failed: {error_summary(fault)}; Spark's logs are in {folder}") from fault
    except StatsFault as fault:
        raise CommandError(str(fault)) from fault
    took = time.monotonic() - began
    print(f"replayed {done.cut.records:,} records in {took:.1f} s; `seckill stats report` shows them")


@stats.command()
def live(
    master: Master = "local[*]",
    settings: SparkSettings = None,
    facts: Facts = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", show_default=False,
                     help="the job's state [default: below --data]; with a new folder it starts from the beginning"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="count what is there now, then end")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="time between two batches")] = 5.0,
    most: Annotated[int, typer.Option(metavar="RECORDS", help="most records in one batch")] = 200_000,
    remember: Annotated[str, typer.Option(metavar="TIME", help="how long a duplicate is recognised")] = "1 day",
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
) -> None:  # fmt: skip
    """Count records as they arrive, until Ctrl-C; the next start continues there."""
    from analytics import session, sources, spark_jars
    from analytics.faults import StatsFault
    from analytics.jobs.live import StreamJob, StreamPlan
    from analytics.progress import BatchLines
    from seckill.messaging import ready_file
    from seckill.monitoring.signs_of_life import signs_of_life

    use_cluster(kafka, kafka_config, SERVICE)
    environment, folder = _environment(), _statistics_folder()
    if every < 0 or most < 1:
        raise CommandError("--every must not be negative, --most must be at least 1")
    spark_settings = parse_spark_settings(settings or ())
    try:
        spark_jars.checked_jars()
        sources.find_cut(environment.kafka_bootstrap_servers)  # fails now, with a clear message, if a topic is missing
        lines = BatchLines(console(stderr=True))
        with lines.starting():
            spark = session.start_session(master, folder, spark_settings)
        plan = StreamPlan(
            environment.kafka_bootstrap_servers, environment.database_url, checkpoint or str(folder / "checkpoint"),
            facts or str(folder / "facts"), every, once, most, remember,
        )  # fmt: skip
        job = StreamJob(spark, plan, lines.print_line)
        for number in (signal.SIGTERM, signal.SIGINT):  # after the start, because Spark installs handlers of its own
            signal.signal(number, lambda *_: job.stop())
        ready_file.mark_ready()
        lines.print_line("catching up, then ending" if plan.once else "counting new records; Ctrl-C ends it")
        with signs_of_life():
            try:
                job.run()
            finally:
                spark.stop()
    except StatsFault as fault:
        raise CommandError(str(fault)) from fault
    print(lines.summary())


@stats.command()
def report(
    of: Annotated[str | None, typer.Option(metavar="live|replay", help="of the last run of this kind")] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="output file [default: stats/report.html in --data]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the numbers as JSON instead")] = False,
) -> None:
    """Write one page of charts of the last run."""
    if of not in (None, "live", "replay"):
        raise CommandError(f"--of must be live or replay, got {of!r}", 2)
    from analytics import report as pages
    from analytics.faults import StatsFault

    environment, folder = _environment(), _statistics_folder()
    try:
        found = pages.read_statistics(environment.database_url, of)
    except StatsFault as fault:
        raise CommandError(str(fault)) from fault
    if as_json:
        print_json(pages.statistics_as_json(found), indent=1)
        return
    path = html or folder / "report.html"
    path.write_text(pages.render_page(found), encoding="utf-8")
    print(pages.headline(found))
    print(path)


def _environment() -> Environment:
    """Variables of this process, else the addresses that the stack has written down, else the defaults."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    use_stack_addresses(data_folder())
    from seckill.config.environment import read

    return read()


def _statistics_folder() -> Path:
    folder = data_folder().absolute() / "stats"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def parse_spark_settings(texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.startswith("spark."):
            raise CommandError(f"--set {text!r} must be spark.NAME=VALUE")
        pairs[name] = value
    return pairs


def parse_time_ms(text: str) -> int:
    """Milliseconds, or an ISO date and time; UTC if it names no zone."""
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(
            f"--from must be a time such as 2026-11-11T20:00:00+08:00, or milliseconds since 1970, got {text!r}"
        ) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
