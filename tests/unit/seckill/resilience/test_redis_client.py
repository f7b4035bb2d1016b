"""A Redis that takes connections and never answers costs one timeout, whatever is asked of it, and then nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, TimeoutError

from seckill import bounded_redis
from seckill.bounded_redis import NotAsked, connect


class Silent:
    """Takes connections and says nothing; or, once it is told to, OK to everything."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0?protocol=2&lib_name=&lib_version="
        self.connections: list[socket.socket] = []
        self.speaks = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            while client.recv(65536):
                if self.speaks:
                    client.sendall(b"+OK\r\n")
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()
        for each in self.connections:
            each.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


def test_a_redis_that_hangs_is_asked_once_and_then_left_alone(silent: Silent) -> None:
    client = connect(silent.url, timeout_s=0.05)
    with pytest.raises(TimeoutError) as first:
        client.get("key")
    assert not isinstance(first.value, NotAsked)
    for _ in range(50):
        with pytest.raises(NotAsked):
            client.get("key")
        with pytest.raises(NotAsked):
            client.register_script("return 1")()
        with client.pipeline(transaction=False) as asked, pytest.raises(NotAsked):
            asked.get("key")
            asked.execute()
    assert len(silent.connections) == 1
    assert issubclass(NotAsked, RedisError)


def test_a_redis_that_answers_again_is_used_again(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_redis, "OPEN_S", 0.0)
    client = connect(silent.url, timeout_s=0.05)
    with pytest.raises(TimeoutError):
        client.set("key", "value")
    silent.speaks = True
    assert client.set("key", "value") is True


def test_a_redis_that_is_gone_is_no_redis_that_hangs() -> None:
    """It refuses at once, so it may be asked each time."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"redis://127.0.0.1:{nobody.getsockname()[1]}/0"
    client = connect(url)
    for _ in range(3):
        with pytest.raises(RedisConnectionError):
            client.get("key")
