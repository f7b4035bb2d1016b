"""What an experiment learns from its brokers, with an admin client that answers from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from seckill.lab import brokers as module
from seckill.lab.brokers import Brokers
from seckill.stack.services import Layout, Ports

QUEUE = "purchase.requests"


def partition(index: int, leader: int, *in_sync: int, epoch: int = 1) -> dict[str, Any]:
    return {"partition_index": index, "leader_id": leader, "leader_epoch": epoch, "isr_nodes": list(in_sync)}


class FakeAdmin:
    """Records where each client connects; `topics` is what all of them answer."""

    topics: ClassVar[dict[str, list[dict[str, Any]]]] = {}
    connected: ClassVar[list[list[str]]] = []
    open_clients: ClassVar[int] = 0

    def __init__(self, bootstrap_servers: list[str], **options: object) -> None:
        self.connected.append(bootstrap_servers)
        FakeAdmin.open_clients += 1

    def describe_topics(self) -> list[dict[str, Any]]:
        return [{"name": name, "partitions": partitions} for name, partitions in self.topics.items()]

    def describe_metadata_quorum(self) -> dict[str, Any]:
        voters = [{"replica_id": number, "replica_directory_id": f"folder {number}"} for number in (1, 2, 3)]
        found = {"leader_id": 2, "leader_epoch": 7, "current_voters": voters, "observers": [{"replica_id": 3}]}
        return {"topics": [{"partitions": [found]}]}

    def close(self) -> None:
        FakeAdmin.open_clients -= 1


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> type[FakeAdmin]:
    monkeypatch.setattr(module, "KafkaAdminClient", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "topics", {})
    monkeypatch.setattr(FakeAdmin, "connected", [])
    return FakeAdmin


@pytest.fixture
def brokers(admin: type[FakeAdmin], tmp_path: Path) -> Brokers:
    return Brokers(Layout(tmp_path, Ports(broker=20_000), brokers=3))


def test_the_leading_broker_leads_most_of_the_queue_whatever_it_leads_elsewhere(
    brokers: Brokers, admin: type[FakeAdmin]
) -> None:
    admin.topics["orders"] = [partition(index, 1, 1) for index in range(9)]
    admin.topics[QUEUE] = [partition(0, 1, 1), partition(1, 3, 3), partition(2, 3, 3)]
    assert brokers.leading() == (3, 2)


def test_a_partition_without_a_leader_is_not_led_by_a_broker(brokers: Brokers, admin: type[FakeAdmin]) -> None:
    admin.topics[QUEUE] = [partition(0, -1), partition(1, -1), partition(2, 2, 2)]
    assert brokers.leading() == (2, 1)


@pytest.mark.parametrize(
    ("second", "is_true"),
    [(partition(1, 2, 1, 2, 3), True), (partition(1, 2, 1, 2), False), (partition(1, -1, 1, 2, 3), False)],
)
def test_all_replicas_are_in_sync_if_no_partition_lacks_one_or_its_leader(
    second: dict[str, Any], is_true: bool, brokers: Brokers, admin: type[FakeAdmin]
) -> None:
    admin.topics |= {QUEUE: [partition(0, 1, 1, 2, 3)], "orders": [second]}
    assert brokers.are_in_sync() is is_true


def test_a_frozen_broker_is_not_asked(brokers: Brokers, admin: type[FakeAdmin]) -> None:
    brokers.partitions(spared={2})
    brokers.quorum()
    assert admin.connected == [
        ["127.0.0.1:20000", "127.0.0.1:20002"],
        ["127.0.0.1:20000", "127.0.0.1:20001", "127.0.0.1:20002"],
    ]
    assert admin.open_clients == 0


def test_the_quorum_names_the_controller_and_the_folder_of_each_voter(brokers: Brokers) -> None:
    found = brokers.quorum()
    assert (found.controller, found.epoch, found.observers) == (2, 7, frozenset({3}))
    assert found.voters == {1: "folder 1", 2: "folder 2", 3: "folder 3"}


def test_processes_and_folders_of_one_broker_have_no_number(brokers: Brokers, tmp_path: Path) -> None:
    alone = Brokers(Layout(tmp_path))
    assert (alone.process(1), alone.folder(1)) == ("mqcore", tmp_path / "mqcore")
    assert (brokers.process(2), brokers.folder(2)) == ("mqcore.2", tmp_path / "mqcore" / "2")


def test_only_the_records_of_a_broker_count_as_stored(brokers: Brokers, tmp_path: Path) -> None:
    assert brokers.stored_bytes(2) == 0
    for name, size in (("topic-0/0.log", 100), ("topic-1/0.log", 20), ("topic-0/0.index", 3), ("meta.properties", 7)):
        path = brokers.folder(2) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert (brokers.stored_bytes(2), brokers.stored_bytes(1)) == (120, 0)
