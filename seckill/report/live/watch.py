"""Shell: `seckill report --live`: a table that updates in place (or a line a change) and a page of metrics."""

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

from seckill.binding import check_bind
from seckill.consistency.live.counting import Counter
from seckill.consistency.live.residuals import Residual, State, as_metrics, residuals, worst
from seckill.consistency.sources.collect import Addresses

STYLES = {State.HOLDS: "green", State.IN_FLIGHT: "yellow", State.BROKEN: "bold red", State.UNKNOWN: "yellow"}
EXIT_CODES = {State.HOLDS: 0, State.IN_FLIGHT: 0, State.BROKEN: 1, State.UNKNOWN: 2}


class Page:
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
                content = (page.text if found else "nothing is known yet, or GET /metrics\n").encode()
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
    """Until Ctrl-C. Exit: 1 if anything was ever broken, 2 if nothing can be said at the end, else 0."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    page = Page()
    server = page.serve(metrics_host, metrics_port) if metrics_port is not None else None
    counter = Counter(where)
    was_broken, found, said = False, list[Residual](), ""
    try:
        with Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live:
            while True:
                found = _look(counter)
                page.text = as_metrics(found)
                was_broken = was_broken or worst(found) is State.BROKEN
                if live is not None:
                    live.update(_table(found), refresh=True)
                elif (line := _line(found)) != said:
                    console.print(line, highlight=False, markup=False, soft_wrap=True)
                    said = line
                if stopping.wait(every_s):
                    break
    finally:
        counter.close()
        if server is not None:
            server.shutdown()
            server.server_close()
    state = State.BROKEN if was_broken else worst(found)
    console.print(f"at the end: {worst(found).value}" + (", and something was broken" if was_broken else ""))
    return EXIT_CODES[state]


def _look(counter: Counter) -> list[Residual]:
    try:
        return residuals(counter.look())
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
    """What is not simply well."""
    said = [
        f"{each.name} {each.title}: {'?' if each.residual is None else f'{each.residual:,}'} ({each.state.value})"
        for each in found
        if each.state is not State.HOLDS
    ]
    return "; ".join(said) or "all residuals are 0"
