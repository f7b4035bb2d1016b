"""Shell: `seckill stats`: fetch, live, replay, report. Exit: 0 done, 1 not done (and why), 2 called wrongly."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from analytics import jars
from analytics.faults import StatsFault, plain
from seckill.environment import BadEnvironment, Environment, read

FAILED = 1
PLAIN_WIDTH = 200


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    try:
        return int(chosen.run(chosen))
    except (StatsFault, BadEnvironment) as fault:
        print(f"seckill stats: {fault}", file=sys.stderr)
    except KeyboardInterrupt:
        print("seckill stats: interrupted", file=sys.stderr)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seckill stats", description="Statistics of the sale, read from its topics by Spark."
    )
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--data", type=Path, default=Path("var/stack"), help="folder of the stack (default: var/stack)")
    spark = argparse.ArgumentParser(add_help=False, parents=[where])
    spark.add_argument("--master", default="local[*]", help="a cluster's address (default: local[*], this machine)")
    spark.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, e.g. spark.driver.memory=4g",
    )
    spark.add_argument(
        "--facts", metavar="FOLDER", help="where Parquet goes; any address Spark knows (default: in --data)"
    )

    fetch = words.add_parser("fetch", help="get Spark's connector to Kafka, once; the other words need no network")
    fetch.set_defaults(run=_fetch)
    replay = words.add_parser("replay", parents=[spark], help="count all that is in the topics, anew, and end")
    replay.add_argument(
        "--from", dest="from_", metavar="TIME", help="only from then on: 2026-11-11T20:00:00+08:00, or ms"
    )
    replay.set_defaults(run=_replay)
    live = words.add_parser("live", parents=[spark], help="count what comes, until Ctrl-C; continue where it ended")
    live.add_argument(
        "--checkpoint", metavar="FOLDER", help="what it remembers (default: in --data); a new one starts anew"
    )
    live.add_argument("--once", action="store_true", help="only what is there, then end")
    live.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="a batch so often (default: 5)")
    live.add_argument("--most", type=int, default=200_000, metavar="RECORDS", help="in one batch (default: 200000)")
    live.add_argument(
        "--remember", default="1 day", metavar="TIME", help="a duplicate is known for so long (default: '1 day')"
    )
    live.set_defaults(run=_live)
    report = words.add_parser("report", parents=[where], help="one page of pictures of the last run")
    report.add_argument("--of", choices=("live", "replay"), help="of the last run of this kind")
    report.add_argument("--html", type=Path, metavar="FILE", help="where to (default: stats/report.html in --data)")
    report.add_argument("--json", action="store_true", help="the numbers on standard output instead")
    report.set_defaults(run=_report)
    return parser


def _fetch(chosen: argparse.Namespace) -> int:
    paths = jars.fetch(lambda text: print(f"{text} …", flush=True))
    print(f"{len(paths)} jars, checked, in {paths[0].parent}")
    return 0


def _replay(chosen: argparse.Namespace) -> int:
    import psycopg
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from analytics import session
    from analytics.jobs.replay import replay
    from analytics.progress import working

    environment, folder = _environment(chosen.data), _folder(chosen.data)
    from_ms = None if chosen.from_ is None else _time_ms(chosen.from_)
    pairs = _pairs(chosen.set)
    jars.present()
    began = time.monotonic()
    with working(_console(), "starting Spark") as bar:
        spark = session.start(chosen.master, folder, pairs)
        bar.watch(spark.sparkContext)
        try:
            done = replay(
                spark, environment.kafka_bootstrap_servers, environment.database_url, _facts(chosen), from_ms, bar.say
            )
        except (PySparkException, Py4JError, psycopg.Error) as fault:
            raise StatsFault(f"the replay failed: {plain(fault)}; what Spark said is in {folder}") from fault
        finally:
            spark.stop()
    took = time.monotonic() - began
    print(f"replayed {done.cut.records:,} records in {took:.1f} s; `seckill stats report` shows them")
    return 0


def _live(chosen: argparse.Namespace) -> int:
    from analytics import session, sources
    from analytics.jobs.live import Live, Plan
    from analytics.progress import Lines
    from seckill.streams import ready

    environment, folder = _environment(chosen.data), _folder(chosen.data)
    if chosen.every < 0 or chosen.most < 1:
        raise StatsFault("--every must not be negative, --most must be at least 1")
    pairs = _pairs(chosen.set)
    jars.present()
    sources.cut(environment.kafka_bootstrap_servers)  # says at once, and plainly, what is not there
    lines = Lines(_console())
    with lines.starting():
        spark = session.start(chosen.master, folder, pairs)
    plan = Plan(
        environment.kafka_bootstrap_servers,
        environment.database_url,
        chosen.checkpoint or str(folder / "checkpoint"),
        _facts(chosen),
        chosen.every,
        chosen.once,
        chosen.most,
        chosen.remember,
    )
    job = Live(spark, plan, lines.tell)
    for number in (signal.SIGTERM, signal.SIGINT):  # after the start: Spark has a mind of its own about Ctrl-C
        signal.signal(number, lambda *_: job.stop())
    ready.announce()
    lines.tell("catching up, then the end" if plan.once else "counting what comes; Ctrl-C ends it")
    try:
        job.run()
    finally:
        spark.stop()
    print(lines.last_words())
    return 0


def _report(chosen: argparse.Namespace) -> int:
    from analytics import report

    environment, folder = _environment(chosen.data), _folder(chosen.data)
    found = report.read(environment.database_url, chosen.of)
    if chosen.json:
        print(json.dumps(report.as_json(found), indent=1))
        return 0
    path: Path = chosen.html or folder / "report.html"
    path.write_text(report.written(found), encoding="utf-8")
    print(report.sentence(found))
    print(path)
    return 0


# ── what is asked of all ─────────────────────────────────────────────────────────────────────────


def _environment(data: Path) -> Environment:
    """What is set for this process, else what the stack in the folder has written down, else the defaults."""
    path = data / "run" / "environment.json"
    written: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    for name, value in written.items():
        os.environ.setdefault(name, value)
    return read()


def _folder(data: Path) -> Path:
    folder = data.absolute() / "stats"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _facts(chosen: argparse.Namespace) -> str:
    return chosen.facts or str(_folder(chosen.data) / "facts")


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, is_pair, value = text.partition("=")
        if not is_pair or not name.startswith("spark."):
            raise StatsFault(f"--set {text!r} is not spark.NAME=VALUE")
        pairs[name] = value
    return pairs


def _time_ms(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise StatsFault(f"--from {text!r} is no time: 2026-11-11T20:00:00+08:00, or ms since 1970") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _console() -> Console:
    console = Console(stderr=True)
    return console if console.is_terminal else Console(stderr=True, width=PLAIN_WIDTH)
