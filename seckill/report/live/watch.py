"""Shell: `seckill report --live`: a table that updates in place, or one line per change, and a metrics page."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import psycopg
from rich.console import Console
from rich.live import Live
from rich.table import Table

from seckill.config.public_bind import check_bind
from seckill.report.live.counting import LiveCounter
from seckill.report.live.residuals import Residual, ResidualState, as_metrics, residuals, worst_state
from seckill.report.sources.collect import Addresses

STYLES = {
    ResidualState.HOLDS: "green",
    ResidualState.IN_FLIGHT: "yellow",
    ResidualState.BROKEN: "bold red",
    ResidualState.UNKNOWN: "yellow",
}
EXIT_CODES = {ResidualState.HOLDS: 0, ResidualState.IN_FLIGHT: 0, ResidualState.BROKEN: 1, ResidualState.UNKNOWN: 2}


class MetricsPage:
    """The latest residuals, for Prometheus."""

    def __init__(self) -> None:
        self.text = ""

    def serve(self, host: str, port: int) -> HTTPServer:
        """`OSError` if the port is taken."""
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics" and page.text
                content = (page.text if found else "no residuals yet; GET /metrics\n").encode()
                self.send_response(200 if found else 503)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = HTTPServer((check_bind(host, "the metrics page"), port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


def watch(
    console: Console, where: Addresses, every_s: float, metrics_port: int | None, metrics_host: str = "127.0.0.1"
) -> int:
    """Runs until Ctrl-C. Returns 1 if a residual was ever broken, 2 if one is unknown at the end, else 0."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    page = MetricsPage()
    server = page.serve(metrics_host, metrics_port) if metrics_port is not None else None
    counter = LiveCounter(where)
    was_broken, found, line_shown = False, list[Residual](), ""
    try:
        with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
            while True:
                found = _current_residuals(counter)
                page.text = as_metrics(found)
                was_broken = was_broken or worst_state(found) is ResidualState.BROKEN
                if live is not None:
                    live.update(_table(found), refresh=True)
                elif (line := _line(found)) != line_shown:
                    console.print(line, highlight=False, markup=False, soft_wrap=True)
                    line_shown = line
                if stopping.wait(every_s):
                    break
    finally:
        counter.close()
        if server is not None:
            server.shutdown()
            server.server_close()
    state = ResidualState.BROKEN if was_broken else worst_state(found)
    console.print(
        f"at the end: {worst_state(found).value}" + (", but a residual was broken before" if was_broken else "")
    )
    return EXIT_CODES[state]


def _current_residuals(counter: LiveCounter) -> list[Residual]:
    try:
        return residuals(counter.count())
    except psycopg.Error as fault:
        return [Residual("—", f"no database: {str(fault).splitlines()[0]}", None)]


def _table(found: list[Residual]) -> Table:
    table = Table("", "residual", "now", "in flight", "", box=None, pad_edge=False)
    for each in found:
        now = "?" if each.residual is None else f"{each.residual:,}"
        state = f"[{STYLES[each.state]}]{each.state.value}[/]"
        table.add_row(each.name, each.title, now, f"{each.in_flight:,}" if each.in_flight else "", state)
    return table


def _line(found: list[Residual]) -> str:
    """Every residual that does not hold."""
    lines = [
        f"{each.name} {each.title}: {'?' if each.residual is None else f'{each.residual:,}'} ({each.state.value})"
        for each in found
        if each.state is not ResidualState.HOLDS
    ]
    return "; ".join(lines) or "all residuals are 0"
