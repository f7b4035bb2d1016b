"""A broker's start: what it cannot stand on, it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcore.broker import CannotStart
from mqcore.disk.lock import DirectoryLocked
from mqcore.log.clean_mark import CLEAN_MARK
from mqcore.wire.batches import stamp
from mqcore.wire.records import Record, build_batch
from tests.unit.mqcore.apis.stack import Stack


def test_metadata_that_it_does_not_understand_stop_the_start(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        metadata = stack.services.observer.partition
    batch = build_batch([Record(0, 0, None, b"\x01\x63\x00")])
    stamp(batch, metadata.log.end_offset, metadata.leader_epoch)
    with (tmp_path / str(metadata.name) / f"{0:020}.log").open("ab") as log:
        log.write(batch)
    (tmp_path / CLEAN_MARK).unlink()  # so that the end is looked for
    with pytest.raises(CannotStart, match="type 99"):
        Stack(tmp_path).__enter__()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    with Stack(tmp_path), pytest.raises(DirectoryLocked):
        Stack(tmp_path).__enter__()
