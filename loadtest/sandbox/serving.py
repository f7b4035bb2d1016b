"""As much of an HTTP server as the outside world needs, and an append-only log of what it saw."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MOST_BODY = 65536

Answer = tuple[int, dict[str, Any]]
"""Status and body."""


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


def serve(port: int, answer: Callable[[str, str, dict[str, Any]], Answer]) -> ThreadingHTTPServer:
    """`answer(method, path, body)` in a thread for each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond(answer("GET", self.path, {}))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > MOST_BODY:
                self._respond((413, {"error": "body too large"}))
                return
            try:
                body = json.loads(self.rfile.read(length) or b"{}")
            except ValueError:
                self._respond((400, {"error": "no JSON"}))
                return
            self._respond(answer("POST", self.path, body if isinstance(body, dict) else {}))

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

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
