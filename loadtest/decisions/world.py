"""Shell: Postgres, Redis, mqcore and the processes of the sale, on free ports, in a folder of their own.

The slow disk is emulated: a library loaded before Postgres's own makes every fsync and fdatasync of it sleep first.
Postgres then does all that it does on a slow disk, group commit included; mqcore's files stay as fast as they are.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg

from seckill.stack import ready, servers
from seckill.stack.broker import BrokerProcess, free_port
from seckill.stack.services import HTTP_1_ONLY

PATIENCE_S = 600.0
LOOK_S = 0.01
TABLE_LOOK_S = 0.1
"""Of a look that counts a whole table: ten a second are hardly felt, and right to a few hundredths of these figures."""
TICKS = os.sysconf("SC_CLK_TCK")


class World:
    """Servers with a flush of their disk that takes `flush_us` longer; one that is 0 is the disk as it is."""

    def __init__(self, folder: Path, flush_us: int) -> None:
        self.folder, self.flush_us = folder, flush_us
        self.broker = BrokerProcess(folder / "broker", {"auto.create.topics.enable": "false"})
        self._postgres_port, self._redis_port = free_port(), free_port()
        self._open = ExitStack()
        self._postgres: subprocess.Popen[bytes] | None = None
        self._looking: psycopg.Connection | None = None

    @property
    def database(self) -> str:
        return f"postgresql://seckill@127.0.0.1:{self._postgres_port}/seckill"

    def environment(self) -> dict[str, str]:
        redis = f"redis://127.0.0.1:{self._redis_port}"
        return {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")} | {
            "DJANGO_SETTINGS_MODULE": "seckill.settings",
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.address,
            "SECKILL_DATABASE_URL": self.database,
            "SECKILL_ADMISSION_REDIS_URL": f"{redis}/0",
            "SECKILL_GATE_REDIS_URL": f"{redis}/0",
            "SECKILL_CELERY_REDIS_URL": f"{redis}/1",
        }

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _start(self) -> None:
        self.folder.mkdir(parents=True)
        servers.init_postgres(self.folder / "postgres")
        command, how = servers.postgres_command(self.folder / "postgres", self._postgres_port)
        delay = {}
        if self.flush_us:
            delay = {"LD_PRELOAD": str(_delaying(self.folder)), "FLUSH_DELAY_US": str(self.flush_us)}
        self._postgres = self._open.enter_context(self._running("postgres", command, os.environ | delay, **how))
        self._open.enter_context(
            self._running("redis", servers.redis_command(self.folder / "redis", self._redis_port), os.environ)
        )
        self._open.enter_context(self.broker)
        base = f"postgresql://seckill@127.0.0.1:{self._postgres_port}/postgres"
        until(lambda: ready.postgres(base)() is None, "Postgres")
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute("CREATE DATABASE seckill")
        self.call("-m", "django", "migrate", "--verbosity", "0")
        self.call("-m", "seckill.cli", "topics")

    # ── what a figure does with it ───────────────────────────────────────────────────────────────

    def call(self, *arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], env=self.environment(), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def create_sale(self, units: int) -> int:
        words = ["--name", "Gong", "--sku", "phone", "--units", str(units)]
        return int(json.loads(self.call("manage.py", "sale", "create", *words))["sale"])

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Over one connection that stays: a new one for each look would be work for the Postgres that is measured."""
        if self._looking is None:
            self._looking = self._open.enter_context(psycopg.connect(self.database, autocommit=True))
        return self._looking.execute(statement, parameters).fetchall()

    def change(self, statement: str) -> None:
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute(statement)

    def flush_ms(self) -> float:
        """What a commit of one row costs here, the median of many: the flush, and little else."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS probe (at timestamptz)")
            times = []
            for _ in range(200):
                began = time.perf_counter()
                connection.execute("INSERT INTO probe VALUES (now())")
                times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1000

    @contextmanager
    def processes(self, *commands: Sequence[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
        """`seckill` words, each a process until the end of the block."""
        with ExitStack() as opened:
            yield [
                opened.enter_context(
                    self._running(" ".join(words), [sys.executable, "-m", "seckill.cli", *words], self.environment())
                )
                for words in commands
            ]

    @contextmanager
    def web(self, application: str, workers: int, threads: int) -> Iterator[int]:
        """A WSGI application on Granian until the end of the block: its port."""
        port = free_port()
        command = [
            sys.executable, "-m", "granian", "--interface", "wsgi", *HTTP_1_ONLY, "--host", "127.0.0.1",
            "--port", str(port), "--workers", str(workers), "--blocking-threads", str(threads),
            "--log-level", "warning", application,
        ]  # fmt: skip
        is_missing = ready.http(f"http://127.0.0.1:{port}/livez")
        with self._running(application, command, self.environment()):
            until(lambda: is_missing() is None, application)
            yield port

    @contextmanager
    def _running(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], **how: Any
    ) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environment), **how
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT if name == "postgres" else signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def cpu_s(self, *processes: subprocess.Popen[bytes]) -> float:
        """Of these, of all of Postgres and of the broker."""
        assert self._postgres is not None
        family = _family(self._postgres.pid)
        return sum(_cpu_s(pid) for pid in (*family, self.broker.pid, *(process.pid for process in processes)))


def until(holds: Callable[[], object], what: str, every_s: float = LOOK_S) -> float:
    """The moment at which it first holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(every_s)
    return time.perf_counter()


def _delaying(folder: Path) -> Path:
    library = folder / "flush.so"
    source = Path(__file__).with_name("flush.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def _family(pid: int) -> list[int]:
    """A process, its children and theirs."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                pass  # it ended meanwhile
    return found


def _cpu_s(pid: int) -> float:
    """Its own, and what its ended children have left it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS
