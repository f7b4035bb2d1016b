"""The wire that is cut: everything passes, except for the COMMITs it was told to lose."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from seckill.faults.cutting import Cutter


class Server:
    """Answers `ok` to whatever it hears, and remembers it."""

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
def cutter(server: Server) -> Iterator[Cutter]:
    cutter = Cutter("127.0.0.1", server.port)
    yield cutter
    cutter.close()


def say(connection: socket.socket, content: bytes) -> bytes:
    connection.sendall(content)
    try:
        return connection.recv(1000)
    except OSError:
        return b""


def connect(cutter: Cutter) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cutter.port), timeout=10)


def test_until_it_is_told_to_cut_everything_passes(cutter: Cutter) -> None:
    with connect(cutter) as connection:
        assert say(connection, b"SELECT 1") == say(connection, b"COMMIT") == b"ok"
    assert cutter.answers_lost == cutter.commits_lost == 0


def test_one_commit_loses_its_answer_and_the_next_is_lost_itself(cutter: Cutter, server: Server) -> None:
    cutter.cut(2)
    for content in (b"COMMIT one", b"COMMIT two"):
        with connect(cutter) as connection:
            assert say(connection, b"UPDATE") == b"ok"
            assert say(connection, content) == b"", "to the client both look the same"
        assert server.ended.acquire(timeout=10)
    assert b"COMMIT one" in server.heard
    assert b"COMMIT two" not in server.heard
    assert (cutter.answers_lost, cutter.commits_lost, cutter.is_done) == (1, 1, True)
    with connect(cutter) as connection:
        assert say(connection, b"COMMIT three") == b"ok"
