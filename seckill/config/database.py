"""Codec: SECKILL_DATABASE_URL → Django's database settings, with limits for every session.

libpq's own parser reads the address, so every option that psycopg knows works here, and an unknown one is an error.
Options in the address override ours. An address may name several hosts; then it must ask for the one that accepts
writes, because every program that connects would otherwise take the first that answers, perhaps a standby.

The limits free what a frozen process or a lost host holds: its locks after `IDLE_IN_TRANSACTION_MS`, its connections
after `SILENCE_MS`.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from seckill.config.environment import BadEnvironment

IDLE_IN_TRANSACTION_MS = 5_000
"""Postgres rolls back a transaction that is idle for this long: its process is frozen, gone, or waiting elsewhere."""
LOCK_MS = 5_000
SILENCE_MS = 10_000
CHECK_CLIENT_MS = 1_000
"""How often the server checks during a long statement whether its client is still connected."""
KEEPALIVE = {"idle": 5, "interval": 2, "count": 3}
WEB_STATEMENT_MS = 5_000
BATCH_STATEMENT_MS = 30_000

ATTRIBUTES_OF_SEVERAL_HOSTS = ("read-write", "primary")

NAMES = {name: name.upper() for name in ("user", "password", "host", "port")} | {"dbname": "NAME"}


def settings_of(url: str, *, pool: int = 0, statement_timeout_ms: int = 0) -> dict[str, Any]:
    """One entry of Django's DATABASES. `pool`: connections shared by the threads; 0: each thread has its own."""
    known = _parse(url)
    limits = " ".join(f"-c {name}={value}" for name, value in session_limits(statement_timeout_ms).items())
    options: dict[str, Any] = {
        "connect_timeout": 5,
        "application_name": "seckill",
        "tcp_user_timeout": SILENCE_MS,
        **{f"keepalives_{name}": value for name, value in KEEPALIVE.items()},
        **{name: value for name, value in known.items() if name not in NAMES},
    }
    options["options"] = f"{limits} {known.get('options', '')}".strip()
    if pool:
        options["pool"] = {"min_size": 1, "max_size": pool, "timeout": 2}
    return {
        "ENGINE": "seckill.config.postgres",
        **{setting: known.get(name, "") for name, setting in NAMES.items()},
        "CONN_MAX_AGE": 0 if pool else None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def session_limits(statement_timeout_ms: int) -> dict[str, int]:
    return {
        "statement_timeout": statement_timeout_ms,
        "lock_timeout": LOCK_MS,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
        **server_limits(),
    }


def server_limits() -> dict[str, int]:
    """Settings of a Postgres server that we start: it drops clients that are gone."""
    return {
        "client_connection_check_interval": CHECK_CLIENT_MS,
        "tcp_user_timeout": SILENCE_MS,
        **{f"tcp_keepalives_{name}": value for name, value in KEEPALIVE.items()},
    }


def _parse(url: str) -> dict[str, str]:
    try:
        known = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error as error:
        why = str(error).strip().replace(url, "the address")
        raise BadEnvironment(f"SECKILL_DATABASE_URL: {why}") from None
    attributes = known.get("target_session_attrs", "any")
    if "," in known.get("host", "") and attributes not in ATTRIBUTES_OF_SEVERAL_HOSTS:
        raise BadEnvironment(
            f"SECKILL_DATABASE_URL names several hosts, so it must end with ?target_session_attrs=read-write, got"
            f" {attributes}"
        )
    return known
