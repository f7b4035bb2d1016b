"""Shell: a page of metrics on a process's own port, in Prometheus' text format (`--metrics-port`).

What is counted in tables is read when the page is asked for, so any one process of a service can show it, and a restart
forgets nothing. Labels never name a person or a purchase.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from mqcore.metrics import Family, Observed, Sample
from seckill.binding import check_bind

log = logging.getLogger(__name__)


def gauge(name: str, meaning: str, labels: tuple[str, ...], read: Callable[[], Iterable[Sample]]) -> Family:
    return Observed(name, meaning, "gauge", labels, read)


def samples(statement: str, labels: int) -> Callable[[], Iterable[Sample]]:
    """Of a statement whose first columns are the values of the labels, and the last one is the sample."""

    def read() -> list[Sample]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return [(tuple(map(str, row[:labels])), float(row[labels])) for row in cursor.fetchall()]

    return read


EXACT_BYTES = 32 * 1024 * 1024
"""A table so small is counted; of a larger one the shares are estimated."""
_BYTES = "SELECT pg_relation_size(%s::regclass), greatest(0, reltuples) FROM pg_class WHERE oid = %s::regclass"
_SHARES = """
SELECT value, share FROM pg_stats, unnest(most_common_vals::text::text[], most_common_freqs) AS row (value, share)
WHERE schemaname = current_schema() AND tablename = %s AND attname = %s
"""


def is_large(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_BYTES, [table, table])
        size, rows = cursor.fetchone()
        return bool(size > EXACT_BYTES and rows)


def counted_by(table: str, column: str, *exactly: str) -> list[tuple[str, float]]:
    """How many rows have each value. Of a large table by Postgres' statistics, which its autovacuum keeps, because a
    scrape must not cost more with every purchase that ever was; `exactly` are values that an index of theirs counts."""
    with connection.cursor() as cursor:
        cursor.execute(_BYTES, [table, table])
        size, rows = cursor.fetchone()
        shares: list[tuple[str, float]] = []
        if size > EXACT_BYTES and rows:
            cursor.execute(_SHARES, [table, column])
            shares = cursor.fetchall()  # none before the first ANALYZE
        if not shares:
            cursor.execute(f"SELECT {column}, count(*) FROM {table} GROUP BY {column}")
            return [(str(value), float(number)) for value, number in cursor.fetchall()]
        counts = {value: float(round(share * rows)) for value, share in shares}
        for value in exactly:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {column} = %s", [value])
            counts[value] = float(cursor.fetchone()[0])
        return list(counts.items())


def samples_by(table: str, column: str, *exactly: str) -> Callable[[], Iterable[Sample]]:
    return lambda: [((value,), number) for value, number in counted_by(table, column, *exactly)]


def page(families: Iterable[Family]) -> str:
    """`DatabaseError` if what stands in tables cannot be read."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.meaning}", f"# TYPE {family.name} {family.kind}", *family.lines()]
    return "\n".join(lines) + "\n"


def serve(host: str, port: int, families: list[Family]) -> HTTPServer:
    """In a thread of its own, one scrape after the other; `OSError` if the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                return self._answer(404, "GET /metrics\n")
            try:
                close_old_connections()
                self._answer(200, page(families))
            except DatabaseError as fault:
                log.warning("no metrics", extra={"reason": str(fault)})
                self._answer(503, "the database is away\n")

        def _answer(self, status: int, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer((check_bind(host, "the metrics page"), port), Handler)

    def run() -> None:
        try:
            server.serve_forever()
        finally:
            connection.close()

    threading.Thread(target=run, daemon=True, name="metrics").start()
    return server
