"""Shell: values that a process computes when Prometheus scrapes it, and the page that `--metrics-port` serves.

Most values come from tables, so any one process of a service can serve them and a restart loses nothing. Labels never
name a person or a purchase, because a label value lives in Prometheus for as long as the data does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from seckill.config.public_bind import check_bind

log = logging.getLogger(__name__)

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the number."""
ReadSamples = Callable[[], Iterable[Sample]]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

disable_created_metrics()  # type: ignore[no-untyped-call]  # no dashboard uses them, and they double the series of every counter


class ComputedMetric(Collector):
    """A metric whose samples are read at each scrape."""

    def __init__(
        self, name: str, help: str, labels: tuple[str, ...], read: ReadSamples, *, is_counter: bool = False
    ) -> None:
        self.name, self.labels = name, labels
        self._help, self._read = help, read
        self._family = CounterMetricFamily if is_counter else GaugeMetricFamily

    def describe(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """Lets the registry learn the name without a query: a process registers before its database answers."""
        return [self._empty()]

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        family = self._empty()
        for values, number in self._read():
            family.add_metric(values, number)
        yield family

    def _empty(self) -> CounterMetricFamily | GaugeMetricFamily:
        return self._family(self.name, self._help, labels=self.labels)


def registry_of(*metrics: ComputedMetric) -> CollectorRegistry:
    """A registry of our own: the library's global one would add the Python runtime's metrics to every page."""
    registry = CollectorRegistry()
    for metric in metrics:
        registry.register(metric)
    return registry


# ── samples from tables ──────────────────────────────────────────────────────────────────────────


def query(statement: str, labels: int) -> ReadSamples:
    """Each row is a sample: the first columns are its label values, the column after them is its number."""

    def read() -> list[Sample]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return [(tuple(map(str, row[:labels])), float(row[labels])) for row in cursor.fetchall()]

    return read


EXACT_BYTES_MAX = 32 * 1024 * 1024
"""Rows of a table up to this size are counted; for a larger one Postgres' statistics are used."""
_TABLE_SIZE = "SELECT pg_relation_size(%s::regclass), greatest(0, reltuples) FROM pg_class WHERE oid = %s::regclass"
_VALUE_SHARES = """
SELECT value, share FROM pg_stats, unnest(most_common_vals::text::text[], most_common_freqs) AS row (value, share)
WHERE schemaname = current_schema() AND tablename = %s AND attname = %s
"""


def is_large(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_TABLE_SIZE, [table, table])
        size, rows = cursor.fetchone()
        return bool(size > EXACT_BYTES_MAX and rows)


def count_by(table: str, column: str, *exact: str) -> list[tuple[str, float]]:
    """The number of rows for each value of the column.

    A scrape must not cost more with every purchase ever made, so the counts of a large table are estimates from the
    statistics that autovacuum keeps. The values in `exact` are always counted, because an index covers them.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TABLE_SIZE, [table, table])
        size, rows = cursor.fetchone()
        shares: list[tuple[str, float]] = []
        if size > EXACT_BYTES_MAX and rows:
            cursor.execute(_VALUE_SHARES, [table, column])
            shares = cursor.fetchall()  # empty before the first ANALYZE
        if not shares:
            cursor.execute(f"SELECT {column}, count(*) FROM {table} GROUP BY {column}")  # our own names  # nosec B608
            return [(str(value), float(number)) for value, number in cursor.fetchall()]
        counts = {value: float(round(share * rows)) for value, share in shares}
        for value in exact:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {column} = %s", [value])  # nosec B608
            counts[value] = float(cursor.fetchone()[0])
        return list(counts.items())


def query_counts(table: str, column: str, *exact: str) -> ReadSamples:
    """One sample for each value of the column, as `count_by` finds them."""
    return lambda: [((value,), number) for value, number in count_by(table, column, *exact)]


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def render(registry: CollectorRegistry) -> bytes:
    """The registry in Prometheus' text format. Raises `DatabaseError` if a table cannot be read."""
    return generate_latest(registry)


def serve(host: str, port: int, registry: CollectorRegistry) -> HTTPServer:
    """Serve `/metrics` from one background thread, one scrape at a time. Raises `OSError` if the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                return self._respond(404, b"GET /metrics\n")
            try:
                close_old_connections()
                self._respond(200, render(registry))
            except DatabaseError as fault:
                log.warning("metrics unavailable", extra={"reason": str(fault)})
                self._respond(503, b"the database is unavailable\n")

        def _respond(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
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
