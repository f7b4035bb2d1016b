"""Shell: the servers of this benchmark, optionally with a slow disk under Postgres.

The slow disk is emulated: a library that is loaded before Postgres's own makes every fsync and fdatasync sleep first.
Postgres then does everything that it does on a slow disk, group commit included. The broker's files stay fast.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psycopg

from seckill.lab.sale_database import SaleDatabase
from seckill.stack.child_processes import cpu_seconds, process_family, wait_until
from seckill.stack.server_set import ServerSet

WAIT_SECONDS_MAX = 600.0
POLL_S = 0.01
TABLE_POLL_S = 0.1
"""For conditions that count a whole table, so that the counting does not disturb what is measured."""
PROBES = 200


class BenchmarkServers(ServerSet):
    """`flush_us`: how much longer a flush of the disk takes; 0 is the disk of this machine as it is."""

    def __init__(self, folder: Path, flush_us: int) -> None:
        folder.mkdir(parents=True)
        delay = None
        if flush_us:
            delay = {"LD_PRELOAD": str(_build_delay_library(folder)), "FLUSH_DELAY_US": str(flush_us)}
        super().__init__(folder, delay)
        self.flush_us = flush_us

    def __enter__(self) -> Self:
        super().__enter__()
        self.database = SaleDatabase(self.database_url, keep_connection=True)
        self._open.callback(self.database.close)
        return self

    def flush_ms(self) -> float:
        """The median time of a commit of one row: the flush, and little else."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS probe (at timestamptz)")
            times = []
            for _ in range(PROBES):
                began = time.perf_counter()
                connection.execute("INSERT INTO probe VALUES (now())")
                times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1000

    def cpu_s(self, *processes: subprocess.Popen[bytes]) -> float:
        """CPU time of these processes, of the broker, and of Postgres with its backends."""
        pids = (*process_family(self.pids["postgres"]), self.pids["broker"], *(process.pid for process in processes))
        return sum(map(cpu_seconds, pids))


def until(holds: Callable[[], object], what: str, every_s: float = POLL_S) -> float:
    """Wait for a condition; time.perf_counter() of the moment."""
    return wait_until(holds, what, WAIT_SECONDS_MAX, poll_s=every_s)


def _build_delay_library(folder: Path) -> Path:
    library = folder / "flush.so"
    source = Path(__file__).with_name("flush.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library
