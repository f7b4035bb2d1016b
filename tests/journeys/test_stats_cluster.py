"""Statistics on a Spark cluster with two workers, beside a whole stack: a worker is killed in the middle of a batch,
and the books still agree with every count (I22). The sale runs on mqcore, and on three nodes of Apache Kafka with TLS,
passwords and ACLs, which the workers reach without files of their own.

It takes five minutes, so it runs only on request: `TEST_NIGHT=1 pytest tests/journeys/test_stats_cluster.py`, or
`make night`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtest.kafka_cluster import ApacheKafkaCluster
from seckill.lab.kafka_target import CLIENT_FILE
from tests.journeys.spark_cluster import SparkCluster, spark_cluster
from tests.journeys.stack import Stack
from tests.journeys.statistics_world import NO_CODE, QUICK_JAVA

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("java"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not os.environ.get("TEST_NIGHT"), reason="takes minutes: set TEST_NIGHT=1"),
]

BUYERS, UNITS = 400, 60
FIRST_BATCH_SECONDS_MAX = 300.0
"""Beside three Kafka nodes on a busy machine with two cores, Spark alone takes two minutes to start."""
RECORDS_OF_A_BATCH = 150
STUCK_S = 6.0
"""A batch takes a second. One that has made no progress for this long waits for the frozen executor."""


@pytest.fixture(scope="module", params=["mqcore", "secure kafka"])
def login(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The options that name the broker, for `seckill up` and `seckill stats`."""
    if request.param == "mqcore":
        yield ()
        return
    cluster = ApacheKafkaCluster(tmp_path_factory.mktemp("kafka"), {"auto.create.topics.enable": "false"}, secure=True)
    try:
        cluster.start()
        yield ("--kafka-config", str(cluster.folder / CLIENT_FILE))
    finally:
        cluster.kill()


@pytest.fixture(scope="module")
def stack(login: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack after a rush."""
    stack = Stack(tmp_path_factory.mktemp("stack"), *login, on_kafka=False)
    stack.start()
    words = ["--sale", str(stack.create_sale(UNITS)), "--buyers", str(BUYERS), "--over", "4", "--url", stack.gateway]
    command = [sys.executable, "-m", "loadtest.rush", *words, "--log", str(stack.evidence / "rush.jsonl")]
    crowd = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert crowd.returncode == 0, crowd.stderr
    yield stack
    assert stack.stop() == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path, workers=2) as made:
        yield made


@pytest.fixture
def workplace(login: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
    """The options of every job: where it reads, and a path for its facts that all workers share."""
    return (*login, "--facts", str(tmp_path / "facts"))


def stats(stack: Stack, cluster: SparkCluster, workplace: tuple[str, ...], *words: str) -> subprocess.Popen[str]:
    """`seckill stats` on the cluster."""
    command = [sys.executable, "-m", "seckill.cli", "--data", str(stack.folder), "stats", *words]
    command += ["--master", cluster.address, *workplace]
    for setting in ("driver.host=127.0.0.1", "executor.memory=512m", "executor.cores=1", "sql.shuffle.partitions=2"):
        command += ["--set", f"spark.{setting}"]
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "KAFKA_"))}
    environment = bare | QUICK_JAVA | {"PYSPARK_PYTHON": sys.executable}
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *NO_CODE], stdout=pipe, stderr=pipe, text=True, env=environment)


def ended(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return output + errors


def batches(stack: Stack) -> int:
    return int(stack.query("SELECT count(*) FROM analytics_batch")[0][0])


def judged(stack: Stack) -> dict[str, str]:
    path = stack.folder / "report.json"
    stack.seckill("report", "--statistics", "--json", str(path))
    said: dict[str, Any] = json.loads(path.read_text())
    return {each["name"]: each["verdict"] for each in said["invariants"]} | {"all": said["verdict"]}


def wait_until_stuck(stack: Stack, process: subprocess.Popen[str]) -> int:
    """The number of batches, once it has not grown for `STUCK_S` although the job runs."""
    last, since = batches(stack), time.monotonic()
    while time.monotonic() < since + STUCK_S:
        assert process.poll() is None, "the job ended before its batch could be interrupted"
        time.sleep(0.2)
        if (now := batches(stack)) != last:
            last, since = now, time.monotonic()
    return last


def test_a_stream_counts_everything_once_although_a_worker_is_killed_in_the_middle_of_a_batch(
    stack: Stack, cluster: SparkCluster, workplace: tuple[str, ...], tmp_path: Path
) -> None:
    words = ("live", "--once", "--most", str(RECORDS_OF_A_BATCH), "--checkpoint", str(tmp_path / "checkpoint"))
    job = stats(stack, cluster, workplace, *words)
    stack.wait_until(lambda: batches(stack) >= 1, "the first batch", FIRST_BATCH_SECONDS_MAX)
    cluster.freeze_executors(1)
    before = wait_until_stuck(stack, job)
    cluster.kill_worker(1)
    assert "0 behind" in ended(job)
    assert batches(stack) > before, "it was killed after the last batch"
    assert cluster.worked() == {0, 1}
    verdicts = judged(stack)
    assert (verdicts["I22"], verdicts["all"]) == ("PASS", "PASS"), verdicts


def test_a_replay_on_two_workers_agrees_with_the_books(
    stack: Stack, cluster: SparkCluster, workplace: tuple[str, ...], tmp_path: Path
) -> None:
    ended(stats(stack, cluster, workplace, "replay"))
    assert cluster.worked() == {0, 1}
    assert list((tmp_path / "facts").rglob("*.parquet"))
    assert judged(stack)["I22"] == "PASS"


def test_a_report_notices_a_count_that_is_wrong(stack: Stack) -> None:
    """The control of the two tests above."""
    stack.query("UPDATE analytics_total SET events = events + 1 WHERE kind = 'RESERVED' RETURNING 1")
    assert judged(stack)["I22"] == "FAIL"
