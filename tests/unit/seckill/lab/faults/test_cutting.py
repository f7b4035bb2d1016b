"""The connection cutter relays everything except the COMMITs that it has to lose."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from seckill.lab.faults.connection_cutter import ConnectionCutter


class Server:
    """A server that records what it receives and answers `ok`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        self.ended = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    while content := connection.recv(1000):
                        self.heard.append(content)
                        connection.sendall(b"ok")
                except OSError:
                    pass
            self.ended.release()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def cutter(server: Server) -> Iterator[ConnectionCutter]:
    cutter = ConnectionCutter("127.0.0.1", server.port)
    yield cutter
    cutter.close()


def say(connection: socket.socket, content: bytes) -> bytes:
    connection.sendall(content)
    try:
        return connection.recv(1000)
    except OSError:
        return b""


def connect(cutter: ConnectionCutter) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cutter.port), timeout=10)


def test_everything_passes_until_a_cut_is_requested(cutter: ConnectionCutter) -> None:
    with connect(cutter) as connection:
        assert say(connection, b"SELECT 1") == say(connection, b"COMMIT") == b"ok"
    assert cutter.responses_lost == cutter.commits_lost == 0


def test_the_first_commit_loses_its_response_and_the_second_never_arrives(
    cutter: ConnectionCutter, server: Server
) -> None:
    cutter.cut(2)
    for content in (b"COMMIT one", b"COMMIT two"):
        with connect(cutter) as connection:
            assert say(connection, b"UPDATE") == b"ok"
            assert say(connection, content) == b"", "the client cannot tell the two apart"
        assert server.ended.acquire(timeout=10)
    assert b"COMMIT one" in server.heard
    assert b"COMMIT two" not in server.heard
    assert (cutter.responses_lost, cutter.commits_lost, cutter.is_done) == (1, 1, True)
    with connect(cutter) as connection:
        assert say(connection, b"COMMIT three") == b"ok"
