"""A small HTTP server for JSON, and the append-only log of the sandbox."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from seckill.config.public_bind import check_bind

BODY_BYTES_MAX = 65536

SandboxResponse = tuple[int, dict[str, Any]]
"""Status and body."""

Handler = Callable[[str, str, dict[str, Any], Mapping[str, str]], SandboxResponse]
"""Called with method, path with its query, body, and headers by their lower-case names."""


class ConnectionCut(Exception):
    """Close the connection without a response; effects of the request remain."""


class EvidenceLog:
    """One JSON object per line, flushed at once, so that the evidence survives a kill of the process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def close(self) -> None:
        self._file.close()

    def write(self, what: str, **fields: Any) -> None:
        line = json.dumps({"at_ms": time.time_ns() // 1_000_000, "what": what, **fields}, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")


def open_storage(path: Path) -> sqlite3.Connection:
    """A database that survives kill -9 of the process. It is not synced, so that no request waits for a disk."""
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def start_server(port: int, handle: Handler, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Call `handle` for each request, in a thread per connection."""

    class RequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            self._handle("GET", {})

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length") or 0)
            except ValueError:
                length = -1
            if not 0 <= length <= BODY_BYTES_MAX:
                self.close_connection = True
                self._respond((413, {"error": "body too large"}))
                return
            content = self.rfile.read(length)
            if self.headers.get_content_type() != "application/json":
                # A form on any web page can send other types to this machine without a preflight request.
                self._respond((415, {"error": "the body must have the type application/json"}))
                return
            try:
                body = json.loads(content or b"{}")
            except ValueError:
                self._respond((400, {"error": "the body must be JSON"}))
                return
            self._handle("POST", body if isinstance(body, dict) else {})

        def _handle(self, method: str, body: dict[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                response = handle(method, self.path, body, headers)
            except ConnectionCut:
                self.close_connection = True
            else:
                self._respond(response)

        def _respond(self, response: SandboxResponse) -> None:
            status, body = response
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server((check_bind(host, "the sandbox"), port), RequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
