"""Codec: SECKILL_DATABASE_URL → Django's settings of the database, with the limits of every session.

The address is read by libpq's own parser, so every option that the report's driver knows is honoured here, too, and an
unknown one is an error. Options of the address win over ours.

The limits let successors through when a process is frozen or its host is gone: what it held is free again after
`IDLE_IN_TRANSACTION_MS`, and a peer that does not answer is given up after `SILENCE_MS`.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from seckill.environment import BadEnvironment

IDLE_IN_TRANSACTION_MS = 5_000
"""A transaction that asks nothing for so long is rolled back: its process is frozen, gone, or waits for another one."""
LOCK_MS = 5_000
SILENCE_MS = 10_000
CHECK_CLIENT_MS = 1_000
"""During a long statement the server looks this often whether its client is still connected."""
KEEPALIVE = {"idle": 5, "interval": 2, "count": 3}
WEB_STATEMENT_MS = 5_000
BATCH_STATEMENT_MS = 30_000

NAMES = {name: name.upper() for name in ("user", "password", "host", "port")} | {"dbname": "NAME"}


def settings_of(url: str, *, pool: int = 0, statement_timeout_ms: int = 0) -> dict[str, Any]:
    """Of Django's DATABASES. `pool`: connections shared by the threads of the process; 0: each has its own."""
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
        "ENGINE": "django.db.backends.postgresql",
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
    """What a server of ours does for every client: give up one that is gone."""
    return {
        "client_connection_check_interval": CHECK_CLIENT_MS,
        "tcp_user_timeout": SILENCE_MS,
        **{f"tcp_keepalives_{name}": value for name, value in KEEPALIVE.items()},
    }


def _parse(url: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error as error:
        why = str(error).strip().replace(url, "the address")
        raise BadEnvironment(f"SECKILL_DATABASE_URL: {why}") from None
