"""What is done once before the services start: the database, its tables, the topics, a sale to look at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from seckill.stack.control import StackFault

if TYPE_CHECKING:
    from seckill.stack.services import Layout


SAID = "seckill: "


def prepare(layout: Layout, tell: Callable[[str], None]) -> None:
    if "postgres" in layout.own_ports():
        _make_database(layout.addresses()["SECKILL_DATABASE_URL"])
    for arguments in (["-m", "django", "migrate", "--verbosity", "0"], ["-m", "seckill.cli", "topics"]):
        done = subprocess.run([sys.executable, *arguments], env=layout.environment(), capture_output=True, text=True)
        if done.returncode:
            said = [line.removeprefix(SAID) for line in done.stderr.splitlines() if line.startswith(SAID)]
            raise StackFault("; ".join(said) or f"{' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    tell("database and topics are ready")


def _make_database(url: str) -> None:
    """The server is ours, so the database is made if it is absent (somebody else's has it already)."""
    base, _, name = url.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if not there:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
