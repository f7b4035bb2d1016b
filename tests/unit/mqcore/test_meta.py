"""Whose data folder it is. A foreign one is refused before anything in it is touched."""

from __future__ import annotations

import pytest

from mqcore.disk.memory import MemoryDisk
from mqcore.meta import FILE, ForeignFolder, claim


def test_a_new_folder_gets_an_identity_and_keeps_it() -> None:
    disk = MemoryDisk()
    made = claim(disk, 3, "")
    assert made.node_id == 3 and made.cluster_id
    disk.crash("power")
    assert claim(disk, 3, "") == made
    assert claim(disk, 3, made.cluster_id) == made


def test_the_identity_is_written_as_kafka_writes_it() -> None:
    disk = MemoryDisk()
    made = claim(disk, 1, "abc")
    lines = dict(line.split("=", 1) for line in disk.read_whole(FILE).decode().splitlines())
    assert lines["version"] == "1" and lines["cluster.id"] == "abc" and lines["node.id"] == "1"
    assert made.cluster_id == "abc" and len(lines["directory.id"]) == 22


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("node.id=1", "node.id=2"), "belongs to node 2; this is node 1"),
        (("cluster.id=abc", "cluster.id=xyz"), "belongs to cluster xyz, not abc"),
        (("version=1", "version=2"), "version 2"),
        (("node.id=1", "node.id=one"), "damaged"),
        (("node.id=1\n", ""), "damaged"),
        (("directory.id=", "directory.id=A"), "damaged"),
    ],
)
def test_a_foreign_newer_or_damaged_folder_is_refused(change: tuple[str, str], says: str) -> None:
    disk = MemoryDisk()
    claim(disk, 1, "abc")
    content = disk.read_whole(FILE).decode()
    disk.replace(FILE, content.replace(*change).encode())
    with pytest.raises(ForeignFolder, match=says):
        claim(disk, 1, "abc")


def test_unknown_lines_and_comments_are_left_alone() -> None:
    disk = MemoryDisk()
    made = claim(disk, 1, "")
    disk.replace(FILE, b"# written by hand\nnew.thing=1\n" + disk.read_whole(FILE))
    assert claim(disk, 1, "") == made
