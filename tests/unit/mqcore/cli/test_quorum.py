"""`mqcore quorum`: what it shows of a quorum, and which node it adopts."""

from __future__ import annotations

import io
from types import SimpleNamespace, TracebackType
from typing import Any, Self
from uuid import UUID

import pytest

from mqcore.cli import quorum
from mqcore.cli.client import Client, ClientError
from mqcore.identity import kafka_uuid
from mqcore.wire.errors import ErrorCode

NEW = UUID(int=77)


def replica(node: int, end: int, directory: UUID | None = None) -> Any:
    return SimpleNamespace(replica_id=node, log_end_offset=end, replica_directory_id=directory or UUID(int=node))


class FakeClient:
    """A broker of a cluster in which node 3 has lost its folder."""

    def __init__(self) -> None:
        self.observers = [replica(3, 90, NEW)]
        self.adopted: dict[str, Any] = {}
        self.error = ErrorCode.NONE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def request(self, key: int, version: int, **fields: Any) -> Any:
        if key == 80:
            self.adopted = fields
            return SimpleNamespace(error_code=self.error, error_message="not now" if self.error else None)
        voters = [replica(1, 100), replica(2, 98), replica(3, -1)]
        partition = SimpleNamespace(
            error_code=ErrorCode.NONE,
            error_message=None,
            leader_id=1,
            leader_epoch=7,
            high_watermark=98,
            current_voters=voters,
            observers=self.observers,
        )
        topic = SimpleNamespace(partitions=[partition])
        return SimpleNamespace(error_code=ErrorCode.NONE, error_message=None, topics=[topic])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()
    monkeypatch.setattr(Client, "to", lambda address: client)
    return client


def test_each_node_is_shown_with_its_role_and_how_far_it_is_behind(client: FakeClient) -> None:
    out = io.StringIO()
    assert quorum.describe("broker:9092", out) == 0
    first, _, *rows = [line.split() for line in out.getvalue().splitlines()]
    assert " ".join(first) == "leader 1, epoch 7, committed up to 98"
    assert [(row[0], row[1], *row[3:]) for row in rows] == [
        ("1", "leader", "100", "0"),
        ("2", "voter", "98", "2"),
        ("3", "voter", "-1", "unknown"),
        ("3", "observer", "90", "10"),
    ]
    assert rows[3][2] == kafka_uuid(NEW)


def test_a_node_is_adopted_with_the_folder_that_it_has_now(client: FakeClient) -> None:
    assert quorum.adopt("broker:9092", 3, io.StringIO()) == 0
    assert (client.adopted["voter_id"], client.adopted["voter_directory_id"]) == (3, NEW)
    assert client.adopted["cluster_id"] is None


def test_only_an_observer_is_adopted(client: FakeClient) -> None:
    with pytest.raises(ClientError, match="node 2 is not an observer"):
        quorum.adopt("broker:9092", 2)
    client.observers.append(replica(3, 80, UUID(int=78)))
    with pytest.raises(ClientError, match="2 folders"):
        quorum.adopt("broker:9092", 3)
    assert not client.adopted


def test_a_refusal_is_an_error_with_its_reason(client: FakeClient) -> None:
    client.error = ErrorCode.OPERATION_NOT_ATTEMPTED
    with pytest.raises(ClientError, match="node 3 cannot be adopted: not now"):
        quorum.adopt("broker:9092", 3)
