"""The database's clock. Times that are compared with each other come from it, because hosts disagree by seconds."""

from __future__ import annotations

from seckill.messaging import binary_sql


def now_ms() -> int:
    return int(binary_sql.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", [])[0][0])
