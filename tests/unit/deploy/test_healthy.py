"""The health check of containers, run as a command against servers that are healthy, unhealthy or silent."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seckill.stack.broker_process import BrokerProcess
from seckill.stack.child_processes import free_port

PROGRAM = Path(__file__).parents[3] / "deploy" / "healthy.py"


def ask(what: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-I", "-S", PROGRAM, what], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr.strip()


@contextmanager
def server(answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """A server for one connection, which sends this response to the first bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(answer(connection.recv(1000)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)


@pytest.mark.parametrize(
    ("status", "code"), [("200 OK", 0), ("503 Service Unavailable", 1), ("302 Found", 1), ("500 Oops", 1)]
)
def test_over_http_only_200_is_healthy(status: str, code: int) -> None:
    asked = []

    def answer(said: bytes) -> bytes:
        asked.append(said)
        return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()

    with server(answer) as port:
        assert ask(f"http://127.0.0.1:{port}/readyz?x=1")[0] == code
    assert asked[0].startswith(b"GET /readyz?x=1 HTTP/1.0\r\nHost: 127.0.0.1\r\n")


@pytest.mark.parametrize("kind", ["http", "kafka"])
def test_a_refused_or_closed_connection_is_unhealthy(kind: str) -> None:
    code, said = ask(f"{kind}://127.0.0.1:{free_port()}")
    assert code == 1 and "refused" in said
    with server(lambda said: b"") as port:
        assert ask(f"{kind}://127.0.0.1:{port}")[0] == 1


def test_a_broker_is_healthy_and_another_kind_of_server_is_not(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert ask(f"kafka://{broker.address}") == (0, "")
    with server(lambda said: b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        code, said = ask(f"kafka://127.0.0.1:{port}")
    assert code == 1 and "does not speak" in said


@pytest.mark.parametrize("what", ["", "ftp://127.0.0.1:21", "http://127.0.0.1", "kafka://127.0.0.1:x"])
def test_an_invalid_address_is_unhealthy(what: str) -> None:
    assert ask(what)[0] == 1
