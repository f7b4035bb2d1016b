"""A Redis that accepts connections and never answers costs one timeout; later calls fail without a wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, TimeoutError

from seckill.resilience import redis_client
from seckill.resilience.redis_client import CircuitOpen, connect


class Silent:
    """Accepts connections and never answers, until `speaks` is set; then it answers OK to everything."""

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


def test_a_redis_that_hangs_costs_one_timeout_and_then_calls_fail_at_once(silent: Silent) -> None:
    client = connect(silent.url, timeout_s=0.05)
    with pytest.raises(TimeoutError) as first:
        client.get("key")
    assert not isinstance(first.value, CircuitOpen)
    for _ in range(50):
        with pytest.raises(CircuitOpen):
            client.get("key")
        with pytest.raises(CircuitOpen):
            client.register_script("return 1")()
        with client.pipeline(transaction=False) as pipeline, pytest.raises(CircuitOpen):
            pipeline.get("key")
            pipeline.execute()
    assert len(silent.connections) == 1
    assert issubclass(CircuitOpen, RedisError)


def test_a_redis_that_answers_again_is_used_again(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_client, "OPEN_SECONDS", 0.0)
    client = connect(silent.url, timeout_s=0.05)
    with pytest.raises(TimeoutError):
        client.set("key", "value")
    silent.speaks = True
    assert client.set("key", "value") is True


def test_a_refused_connection_does_not_open_the_breaker() -> None:
    """A refusal comes at once, so each call may try."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
    client = connect(url)
    for _ in range(3):
        with pytest.raises(RedisConnectionError):
            client.get("key")
