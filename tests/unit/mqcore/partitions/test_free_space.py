"""Produces are refused before the disk is full."""

from __future__ import annotations

from tests.unit.mqcore.partitions.folder import DataFolder


def test_produces_are_refused_while_free_space_is_below_the_reserve() -> None:
    folder = DataFolder()
    partition = folder.open()
    folder.disk.capacity = 10_000
    folder.free_space.check(5_000)
    assert not folder.free_space.is_disk_full
    folder.append(partition, 1, 6_000)
    folder.free_space.check(5_000)
    assert folder.free_space.is_disk_full
    folder.disk.capacity = 20_000
    folder.free_space.check(5_000)
    assert not folder.free_space.is_disk_full
