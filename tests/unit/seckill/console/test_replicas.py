"""The replicas panel: the end of the log of each copy, asked of each broker, whatever becomes of the others."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from seckill.console import replicas
from seckill.console.replicas import PartitionReplicas, read_log_ends, read_replicas

NO_ERROR, NOT_HERE = 0, 3
Answer = dict[str, list[tuple[int, int, int]]]  # partition, error, offset of each topic


class FakeBroker:
    """Answers each ListOffsets request with the same offsets, and keeps what it was asked."""

    def __init__(self, answer: Answer | bytes) -> None:
        self._frame = answer if isinstance(answer, bytes) else frame(answer)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.asked: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as requests:
                (length,) = struct.unpack(">i", requests.read(4))
                self.asked.append(requests.read(length))
                connection.sendall(self._frame)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # otherwise the waiting thread would still accept one connection
        self._listener.close()


def frame(answer: Answer) -> bytes:
    body = struct.pack(">ii", 1, len(answer))
    for topic, partitions in answer.items():
        body += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">ihqq", index, error, -1, offset) for index, error, offset in partitions)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def brokers() -> Iterator[list[FakeBroker]]:
    started: list[FakeBroker] = []
    yield started
    for each in started:
        each.close()


# ── one broker ───────────────────────────────────────────────────────────────────────────────────


def test_the_log_ends_of_a_broker_are_read_by_topic_and_partition(brokers: list[FakeBroker]) -> None:
    broker = FakeBroker({"orders": [(0, NO_ERROR, 7), (1, NO_ERROR, 0)], "sales": [(0, NO_ERROR, 1 << 40)]})
    brokers.append(broker)
    found = read_log_ends(broker.address, [("orders", 1), ("sales", 0), ("orders", 0)])
    assert found == {("orders", 0): 7, ("orders", 1): 0, ("sales", 0): 1 << 40}


def test_a_copy_with_an_error_is_left_out(brokers: list[FakeBroker]) -> None:
    brokers.append(FakeBroker({"orders": [(0, NOT_HERE, -1), (1, NO_ERROR, 5)]}))
    assert read_log_ends(brokers[0].address, [("orders", 0), ("orders", 1)]) == {("orders", 1): 5}


def test_the_request_names_each_topic_once_and_asks_for_the_end_that_clients_do_not_see(
    brokers: list[FakeBroker],
) -> None:
    brokers.append(FakeBroker({}))
    read_log_ends(brokers[0].address, [("orders", 1), ("sales", 0), ("orders", 0)])
    [request] = brokers[0].asked
    api, version, _, client = struct.unpack_from(">hhih", request)
    replica, topics = struct.unpack_from(">ii", request, 10 + client)
    assert (api, version, replica, topics) == (2, 1, -2, 2)
    assert request.count(b"orders") == request.count(b"sales") == 1


@pytest.mark.parametrize("answer", [b"", b"\x00\x00", struct.pack(">i", 40) + b"too short"])
def test_an_answer_that_is_cut_off_is_an_error_that_the_panel_expects(answer: bytes, brokers: list[FakeBroker]) -> None:
    brokers.append(FakeBroker(answer))
    with pytest.raises((OSError, struct.error)):
        read_log_ends(brokers[0].address, [("orders", 0)])


# ── all brokers ──────────────────────────────────────────────────────────────────────────────────


class FakeClient:
    """Three brokers with a copy of each partition of `orders`; `gone` has none."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self._addresses = addresses

    def describe_cluster(self) -> dict[str, object]:
        brokers = enumerate(self._addresses, start=1)
        return {"brokers": [{"broker_id": number, "host": host, "port": port} for number, (host, port) in brokers]}

    def describe_topics(self, topics: list[str]) -> list[dict[str, object]]:
        partition = {
            "partition_index": 0,
            "leader_id": 2,
            "leader_epoch": 4,
            "replica_nodes": [2, 3, 1],
            "isr_nodes": [2, 1],
        }
        return [
            {"name": "orders", "error_code": 0, "partitions": [partition]},
            {"name": "gone", "error_code": NOT_HERE, "partitions": []},
        ]


def test_each_copy_has_its_own_end_and_that_of_a_broker_that_does_not_answer_is_unknown(
    brokers: list[FakeBroker],
) -> None:
    brokers += [FakeBroker({"orders": [(0, NO_ERROR, end)]}) for end in (10, 12, 0)]
    brokers[2].close()
    found = read_replicas(FakeClient([each.address for each in brokers]), ["orders", "gone"])
    assert found == [PartitionReplicas("orders", 0, 2, 4, [1, 2], {1: 10, 2: 12, 3: None})]


def test_a_broker_that_is_gone_from_the_cluster_has_an_unknown_end(brokers: list[FakeBroker]) -> None:
    """The cluster names only brokers that are alive, but a partition keeps the replicas of the others."""
    brokers.append(FakeBroker({"orders": [(0, NO_ERROR, 10)]}))
    [found] = read_replicas(FakeClient([brokers[0].address]), ["orders"])
    assert found.ends == {1: 10, 2: None, 3: None}


def test_a_frozen_broker_delays_the_panel_by_a_limited_time(
    brokers: list[FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts the connection, because the system does that for it, and never answers."""
    monkeypatch.setattr(replicas, "REQUEST_TIMEOUT_MS", 50)
    with socket.create_server(("127.0.0.1", 0)) as frozen, pytest.raises(TimeoutError):
        read_log_ends(frozen.getsockname(), [("orders", 0)])
