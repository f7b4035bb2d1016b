"""`mqcore topics` and the client behind it, when some brokers of the cluster do not answer."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from mqcore.cli import quorum, topics
from mqcore.cli.client import Client, ClientError
from mqcore.wire.errors import ErrorCode

HOST = "127.0.0.1"


@contextmanager
def unused_port() -> Iterator[int]:
    """A port that refuses connections: it is bound, but nothing listens."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        yield int(bound.getsockname()[1])


@contextmanager
def deaf_broker() -> Iterator[str]:
    """Accepts one connection and closes it, as a broker does that is killed with a request under way."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()

        def accept() -> None:
            connection, _ = listening.accept()
            connection.recv(struct.calcsize(">i"))
            connection.close()

        thread = Thread(target=accept)
        thread.start()
        yield f"{HOST}:{listening.getsockname()[1]}"
        thread.join()


class FakeClient:
    """Node 1 answers, node 2 is in the metadata but does not answer, and node 3 is fenced."""

    def __init__(self, host: str, port: int) -> None:
        if port == 2:
            raise ClientError("b:2 cannot be reached: Connection refused")

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def request(self, key: int, version: int, **fields: Any) -> Any:
        if key == topics.METADATA[0]:
            partition = SimpleNamespace(
                partition_index=0, leader_id=1, leader_epoch=4, isr_nodes=[1], replica_nodes=[1, 2, 3]
            )
            brokers = [SimpleNamespace(node_id=node, host="b", port=node) for node in (1, 2)]
            topic = SimpleNamespace(name="orders", partitions=[partition])
            return SimpleNamespace(brokers=brokers, topics=[topic])
        found = SimpleNamespace(partition_index=0, partition_size=80, log_end_offset=7, high_watermark=6)
        folder = SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[found])])
        return SimpleNamespace(results=[folder])


def test_a_broker_that_does_not_answer_is_named_below_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "Client", FakeClient)
    monkeypatch.setattr(FakeClient, "to", lambda address: FakeClient("b", 1), raising=False)
    out = io.StringIO()
    assert topics.show("b:1", watch=False, out=out) == 0
    _, row, *notes = out.getvalue().splitlines()
    assert row.split() == ["orders-0", "1", "4", "1", "1:", "7,", "6,", "80", "B", "|", "2:", "?", "|", "3:", "?"]
    assert notes == ["broker 2: b:2 cannot be reached: Connection refused", f"broker 3: {topics.NOT_ACTIVE}"]


def test_the_first_broker_that_can_be_reached_is_asked() -> None:
    with unused_port() as refused, socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        port = listening.getsockname()[1]
        with Client.to(f"{HOST}:{refused}, {HOST}:{port}") as client:
            assert client.address == f"{HOST}:{port}"


def test_all_brokers_that_cannot_be_reached_are_named() -> None:
    with unused_port() as one, unused_port() as two, pytest.raises(ClientError) as error:
        Client.to(f"{HOST}:{one},{HOST}:{two}")
    assert str(error.value) == "; ".join(f"{HOST}:{port} cannot be reached: Connection refused" for port in (one, two))


@pytest.mark.parametrize("addresses", ["", "127.0.0.1", "127.0.0.1:1,", "127.0.0.1:one"])
def test_an_invalid_address_is_refused_by_name(addresses: str) -> None:
    with pytest.raises(ClientError, match="--bootstrap-server"):
        Client.to(addresses)


def test_a_broker_that_dies_with_a_request_under_way_is_one_clear_line() -> None:
    with deaf_broker() as address, pytest.raises(ClientError, match=f"{address} did not answer: "):
        topics.show(address, watch=False, out=io.StringIO())


def test_a_watch_goes_on_when_no_broker_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    def sleep(seconds: float) -> None:
        pages.append(out.getvalue())
        if len(pages) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("mqcore.cli.topics.time.sleep", sleep)
    out = io.StringIO()
    with unused_port() as port:
        assert topics.show(f"{HOST}:{port}", watch=True, out=out) == 0
    assert out.getvalue() == f"{HOST}:{port} cannot be reached: Connection refused\n" * 2


def test_a_quorum_without_a_leader_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutController(FakeClient):
        address = "b:1"

        def request(self, key: int, version: int, **fields: Any) -> Any:
            found = SimpleNamespace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="not here")
            topic = SimpleNamespace(partitions=[found])
            return SimpleNamespace(error_code=ErrorCode.NONE, error_message=None, topics=[topic])

    monkeypatch.setattr(Client, "to", lambda address: WithoutController("b", 1))
    with pytest.raises(ClientError, match="b:1 has found no active controller: a majority of .* has to run"):
        quorum.describe("b:1")
