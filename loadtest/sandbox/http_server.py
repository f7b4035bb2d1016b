"""As much of an HTTP server as the outside world needs, and an append-only log of what it saw."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from seckill.binding import check_bind

MOST_BODY = 65536

Answer = tuple[int, dict[str, Any]]
"""Status and body."""

Answering = Callable[[str, str, dict[str, Any], Mapping[str, str]], Answer]
"""Method, path with its query, body, headers by their names in lower case."""


class Cut(Exception):
    """The connection ends here, without an answer; what was done is done."""


class Log:
    """One JSON object a line, flushed at once: evidence survives its process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def close(self) -> None:
        self._file.close()

    def write(self, what: str, **fields: Any) -> None:
        line = json.dumps({"at_ms": time.time_ns() // 1_000_000, "what": what, **fields}, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")


def storage(path: Path) -> sqlite3.Connection:
    """What survives kill -9 of its process, as the log does, and costs no sync: a sale is not to wait for a disk of
    the world outside."""
    opened = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    opened.execute("PRAGMA journal_mode = WAL")
    opened.execute("PRAGMA synchronous = NORMAL")
    return opened


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def serve(port: int, answer: Answering, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """`answer` in a thread for each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            self._ask("GET", {})

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length") or 0)
            except ValueError:
                length = -1
            if not 0 <= length <= MOST_BODY:
                self.close_connection = True
                self._respond((413, {"error": "body too large"}))
                return
            content = self.rfile.read(length)
            if self.headers.get_content_type() != "application/json":
                # A form of any web page can send other types to this machine without asking first.
                self._respond((415, {"error": "the body must have the type application/json"}))
                return
            try:
                body = json.loads(content or b"{}")
            except ValueError:
                self._respond((400, {"error": "no JSON"}))
                return
            self._ask("POST", body if isinstance(body, dict) else {})

        def _ask(self, method: str, body: dict[str, Any]) -> None:
            try:
                answered = answer(
                    method, self.path, body, {name.lower(): value for name, value in self.headers.items()}
                )
            except Cut:
                self.close_connection = True
            else:
                self._respond(answered)

        def _respond(self, answered: Answer) -> None:
            status, body = answered
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server((check_bind(host, "the sandbox"), port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
