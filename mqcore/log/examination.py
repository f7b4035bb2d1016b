"""Store: what is wrong with the files of one partition, by the rules that recovery goes by.

Own rule: it changes nothing. What the next start repairs by itself is a remark; what keeps the partition offline, or
would answer wrongly, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqcore.disk.port import Disk
from mqcore.log.epochs import decode_epochs
from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.recovery import EPOCHS_FILE
from mqcore.log.scan import find_valid_batch, scan
from mqcore.log.segment import INDEX, LOG, TIME_INDEX, Segment, segment_name

ERROR: Final = "error"
REMARK: Final = "remark"
_LEFTOVERS: Final = (".deleted", ".cleaned", ".swap", ".tmp")


class Finding(NamedTuple):
    severity: str
    partition: str
    file: str
    position: int | None
    text: str


class Bad(NamedTuple):
    """Where a log stops being valid."""

    base_offset: int
    position: int
    next_offset: int
    reason: str
    follows: str | None  # where valid batches go on: that makes it corruption


def bases_of(disk: Disk, folder: str) -> list[int]:
    return [int(name[:20]) for name in disk.names(folder) if name.endswith(LOG) and len(name) == 24]


def first_bad(disk: Disk, folder: str) -> Bad | None:
    """The first place at which the batches of a log do not go on; None if they go on to its end."""
    items = [Segment(disk, folder, base) for base in bases_of(disk, folder)]
    next_offset, last_epoch = (items[0].base_offset if items else 0), -1
    for index, segment in enumerate(items):
        result = scan(segment, next_offset, last_epoch, gaps_allowed=True, each=lambda position, header: None)
        next_offset, last_epoch, reason = result.next_offset, result.last_epoch, result.reason
        later = items[index + 1 :]
        if reason is None and later and later[0].base_offset != next_offset:
            reason = f"ends at offset {next_offset}, but the next segment begins at {later[0].base_offset}"
        if reason is not None:
            follows = "its place" if result.misplaced else None
            for other, position in [(segment, result.end_position + 1), *((other, 0) for other in later)]:
                if follows is not None:
                    break
                found = find_valid_batch(other, position, next_offset)
                if found is not None:
                    follows = f"{segment_name(other.base_offset)} at {found}"
                    break
            return Bad(segment.base_offset, result.end_position, next_offset, reason, follows)
    return None


def examine_partition(disk: Disk, folder: str, *, recovery_point: int, clean: bool) -> Iterator[Finding]:
    bad = first_bad(disk, folder)
    if bad is not None:
        yield _of_bad(bad, folder, recovery_point, clean)
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        if name.endswith(_LEFTOVERS):
            yield Finding(REMARK, folder, name, None, "left over from a crash; the next start deals with it")
        elif name == EPOCHS_FILE and decode_epochs(disk.read_whole(path)) is None:
            yield Finding(REMARK, folder, name, None, "damaged; the next start rebuilds it")
        elif name.endswith((INDEX, TIME_INDEX)):
            yield from _examine_index(disk, folder, name)


def _of_bad(bad: Bad, folder: str, recovery_point: int, clean: bool) -> Finding:
    name = segment_name(bad.base_offset)
    if bad.follows is not None:
        text = f"{bad.reason}; valid batches follow in {bad.follows}: corrupt from offset {bad.next_offset} on"
    elif bad.next_offset < recovery_point:
        text = f"{bad.reason}: offsets {bad.next_offset} to {recovery_point} were durable and are gone"
    elif clean:
        text = f"{bad.reason}, although the broker stopped cleanly"
    else:
        text = f"a torn write ({bad.reason}); the next start cuts it at offset {bad.next_offset}"
        return Finding(REMARK, folder, name, bad.position, text)
    return Finding(ERROR, folder, name, bad.position, f"{text} (to cut there: doctor --cut {folder})")


def _examine_index(disk: Disk, folder: str, name: str) -> Iterator[Finding]:
    """Does each entry lead to a batch that ends where it says?"""
    stem, _, suffix = name.partition(".")
    if not disk.exists(f"{folder}/{stem}{LOG}"):
        yield Finding(REMARK, folder, name, None, "has no segment; the next start removes it")
        return
    segment = Segment(disk, folder, int(stem))
    content = disk.read_whole(f"{folder}/{name}")
    if f".{suffix}" == TIME_INDEX:
        if TimeIndex.decode(content) is None:
            yield Finding(REMARK, folder, name, None, "damaged; it is rebuilt when it is needed")
        return
    index = OffsetIndex.decode(content, segment.size)
    if index is None:
        yield Finding(REMARK, folder, name, None, "damaged; it is rebuilt when it is needed")
        return
    for offset, position in index.entries():
        if not segment.is_indexed_rightly(offset, position):
            text = f"its entry for offset {segment.base_offset + offset} is wrong; it is rebuilt when it is read"
            yield Finding(REMARK, folder, name, position, text)
            return
