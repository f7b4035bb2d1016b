"""Which broker a data folder belongs to. The folder of another broker is rejected before anything in it is changed."""

from __future__ import annotations

import pytest

from mqcore.data_folder import FILE, STARTS_FILE, ForeignFolder, claim_folder, count_start
from mqcore.disk.memory import MemoryDisk
from mqcore.host import SystemChance


def test_a_new_folder_gets_an_identity_that_survives_a_power_loss() -> None:
    disk = MemoryDisk()
    made = claim_folder(disk, SystemChance(), 3, "")
    assert made.node_id == 3 and made.cluster_id
    disk.crash("power")
    assert claim_folder(disk, SystemChance(), 3, "") == made
    assert claim_folder(disk, SystemChance(), 3, made.cluster_id) == made


def test_the_identity_is_stored_in_the_format_of_kafka() -> None:
    disk = MemoryDisk()
    made = claim_folder(disk, SystemChance(), 1, "abc")
    lines = dict(line.split("=", 1) for line in disk.read_whole(FILE).decode().splitlines())
    assert lines["version"] == "1" and lines["cluster.id"] == "abc" and lines["node.id"] == "1"
    assert made.cluster_id == "abc" and len(lines["directory.id"]) == 22


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("node.id=1", "node.id=2"), "belongs to node 2, but node.id is 1"),
        (("cluster.id=abc", "cluster.id=xyz"), "belongs to cluster xyz, but cluster.id is abc"),
        (("version=1", "version=2"), "version 2"),
        (("node.id=1", "node.id=one"), "damaged"),
        (("node.id=1\n", ""), "damaged"),
        (("directory.id=", "directory.id=A"), "damaged"),
    ],
)
def test_a_foreign_newer_or_damaged_folder_is_rejected(change: tuple[str, str], message: str) -> None:
    disk = MemoryDisk()
    claim_folder(disk, SystemChance(), 1, "abc")
    content = disk.read_whole(FILE).decode()
    disk.replace(FILE, content.replace(*change).encode())
    with pytest.raises(ForeignFolder, match=message):
        claim_folder(disk, SystemChance(), 1, "abc")


def test_unknown_lines_and_comments_are_ignored() -> None:
    disk = MemoryDisk()
    made = claim_folder(disk, SystemChance(), 1, "")
    disk.replace(FILE, b"# written by hand\nnew.thing=1\n" + disk.read_whole(FILE))
    assert claim_folder(disk, SystemChance(), 1, "") == made


def test_each_start_of_a_folder_has_a_larger_number_even_after_a_power_loss() -> None:
    disk = MemoryDisk()
    assert count_start(disk) == 1
    disk.crash("power")
    assert count_start(disk) == 2


@pytest.mark.parametrize("content", [b"", b"-1", b"many", b"9" * 16, b"\xff"])
def test_a_damaged_number_of_starts_is_rejected(content: bytes) -> None:
    disk = MemoryDisk()
    disk.replace(STARTS_FILE, content)
    with pytest.raises(ForeignFolder, match="damaged"):
        count_start(disk)
