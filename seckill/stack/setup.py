"""Shell: what happens once between the servers and the services: database, tables, topics, first sale, operator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from seckill.messaging.topic_check import MISFIT
from seckill.stack.control import StackFault

if TYPE_CHECKING:
    from seckill.config.kafka_properties import KafkaConfig
    from seckill.stack.services import Layout

ERROR_PREFIX = "seckill: "


class FirstRun(NamedTuple):
    """What a user needs to know after a start. Each text is empty if there is nothing to say."""

    sale: str = ""
    operator: str = ""


def prepare(layout: Layout, announce: Callable[[str], None], *, empty: bool = False) -> FirstRun:
    """Make whatever is missing; a second start finds everything there. `empty`: no sale and no operator."""
    if "postgres" in layout.own_ports():
        _create_database(layout.addresses()["SECKILL_DATABASE_URL"])
    _run(layout, "django", "migrate", "--verbosity", "0")
    external = layout.bootstrap_servers is not None
    for line in _run(layout, "seckill.cli", "topics", *(["--keep-settings"] if external else [])).splitlines():
        if line.startswith(MISFIT):
            announce(line)
    if layout.bootstrap_servers is not None and layout.kafka_config is not None:
        check_access(layout.bootstrap_servers, layout.kafka_config, announce)
    announce("database and topics are ready")
    if empty:
        return FirstRun()
    return FirstRun(**json.loads(_run(layout, "seckill.stack.first_run", "--json", "--operator")))


def check_access(bootstrap_servers: str, config: KafkaConfig, announce: Callable[[str], None]) -> None:
    """A missing right does not stop the start, because an administrator may still grant it."""
    from kafka.errors import KafkaError

    from seckill.messaging.access_check import find_access_gaps

    try:
        for line in find_access_gaps(bootstrap_servers, config):
            announce(f"missing right: {line}")
    except KafkaError as fault:
        announce(f"rights were not checked: {fault}; `seckill kafka check` does that later")


def _run(layout: Layout, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=layout.environment(), capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        errors = [line.removeprefix(ERROR_PREFIX) for line in lines if line.startswith(ERROR_PREFIX)]
        raise StackFault("; ".join(errors) or f"{module} {' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _create_database(url: str) -> None:
    """Only on our own Postgres: with another server, its owner creates the database."""
    base, _, name = url.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if not exists:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
