"""A broker, a database and a folder for the statistics jobs, and queries on what they counted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.spark import story

KINDS = {
    "PurchaseRequested": 19, "RESERVED": 3, "SOLD_OUT": 10, "DUPLICATE": 5, "UnitsReleased": 1,
    "OrderPlaced": 3, "OrderPaid": 1, "OrderExpired": 1,
}  # fmt: skip
RECORDS = sum(len(sent) for sent in story().sent.values())
TABLES = (
    "batch", "staged", "partition", "unreadable", "total", "flow", "sell_through", "revenue", "sku", "buyer",
    "latency", "fairness", "run",
)  # fmt: skip
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Less compilation, because there is little data."""
NO_CODE = ("--set", "spark.sql.codegen.wholeStage=false")
"""Less code generation, for the same reason."""
OF_REPLAY = "FROM analytics_partition AS p JOIN analytics_run AS r ON r.id = p.run_id WHERE kind = 'replay'"
BATCHES_OF_STREAM = "FROM analytics_batch AS b JOIN analytics_run AS r ON r.id = b.run_id WHERE kind = 'live'"


@dataclass
class StatisticsWorld:
    folder: Path
    kafka: str
    database: str

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(statement, parameters).fetchall()

    def kinds(self, run: str) -> dict[str, int]:
        rows = self.query(
            "SELECT t.kind, sum(events)::int FROM analytics_total AS t JOIN analytics_run AS r ON r.id = t.run_id"
            " WHERE r.kind = %s GROUP BY 1",
            run,
        )
        return dict(rows)

    def measured(self, run: str) -> dict[str, list[tuple[Any, ...]]]:
        """Every table of a run without the columns that name the run."""
        found = {}
        for name in TABLES[2:-1]:
            rows = self.query(
                f"SELECT to_jsonb(t) - 'id' - 'run_id' FROM analytics_{name} AS t"
                " JOIN analytics_run AS r ON r.id = t.run_id WHERE r.kind = %s",
                run,
            )
            found[name] = sorted(rows, key=str)
        return found

    def stats(self, *words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
        """Runs `seckill stats` with these words in its own process."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SECKILL_", "KAFKA_"))}
        environment |= {"KAFKA_BOOTSTRAP_SERVERS": self.kafka, "SECKILL_DATABASE_URL": self.database}
        environment |= {"PYSPARK_PYTHON": sys.executable}  # for the executors of a cluster
        environment |= {"SECKILL_FAULT": fault, **QUICK_JAVA} if fault else QUICK_JAVA
        command = [sys.executable, "-m", "seckill.cli", "stats", *words, "--data", str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
