"""Store: what is wrong with the files of one partition, by the rules of recovery.

Own rule: an examination changes nothing. A remark is what the next start repairs; an error is what would keep the
partition offline or lead to wrong answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mqcore.disk.port import Disk
from mqcore.log.epochs_file import EPOCHS_FILE, decode_epochs
from mqcore.log.index import OffsetIndex, TimeIndex
from mqcore.log.segment import Segment
from mqcore.log.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    parse_base_offset,
    segment_bases,
    segment_name,
)
from mqcore.log.validity import FirstInvalidBatch, find_continuation, find_first_invalid

ERROR: Final = "error"
REMARK: Final = "remark"
_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)


class Finding(NamedTuple):
    severity: str
    partition: str
    file: str
    position: int | None
    text: str


def open_segments(disk: Disk, folder: str) -> list[Segment]:
    return [Segment(disk, folder, base) for base in segment_bases(disk.names(folder))]


def examine_partition(disk: Disk, folder: str, *, recovery_point: int, clean: bool) -> Iterator[Finding]:
    items = open_segments(disk, folder)
    invalid = find_first_invalid(items).first_invalid
    if invalid is not None:
        yield _describe_invalid(items, invalid, folder, recovery_point, clean)
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        if name.endswith(_LEFTOVER_SUFFIXES):
            yield Finding(REMARK, folder, name, None, "left over from a crash; the next start completes or removes it")
        elif name == EPOCHS_FILE and decode_epochs(disk.read_whole(path)) is None:
            yield Finding(REMARK, folder, name, None, "damaged; the next start rebuilds it")
        else:
            yield from _examine_index(disk, folder, name)


def _describe_invalid(
    items: list[Segment], invalid: FirstInvalidBatch, folder: str, recovery_point: int, clean: bool
) -> Finding:
    name, next_offset = segment_name(items[invalid.segment_index].base_offset), invalid.next_offset
    continuation = "its place" if invalid.is_misplaced else find_continuation(items, invalid)
    if continuation is not None:
        text = f"{invalid.reason}; valid batches follow in {continuation}: corrupt from offset {next_offset} on"
    elif next_offset < recovery_point:
        text = f"{invalid.reason}: offsets {next_offset} to {recovery_point} were durable and are lost"
    elif clean:
        text = f"{invalid.reason}, although the broker stopped cleanly"
    else:
        text = f"a torn write ({invalid.reason}); the next start cuts it at offset {next_offset}"
        return Finding(REMARK, folder, name, invalid.position, text)
    return Finding(ERROR, folder, name, invalid.position, f"{text} (to cut there: doctor --cut {folder})")


def _examine_index(disk: Disk, folder: str, name: str) -> Iterator[Finding]:
    """Check that each entry of an offset index leads to a batch that ends at the entry's offset."""
    base = parse_base_offset(name, INDEX_SUFFIX)
    time_base = parse_base_offset(name, TIME_INDEX_SUFFIX)
    if not name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
        return
    own_base = base if base is not None else time_base
    if own_base is None or not disk.exists(f"{folder}/{segment_name(own_base)}"):
        yield Finding(REMARK, folder, name, None, "has no segment; the next start removes it")
        return
    content = disk.read_whole(f"{folder}/{name}")
    damaged = Finding(REMARK, folder, name, None, "damaged; it is rebuilt when it is needed")
    if base is None:
        if TimeIndex.decode(content) is None:
            yield damaged
        return
    segment = Segment(disk, folder, base)
    index = OffsetIndex.decode(content, segment.size)
    if index is None:
        yield damaged
        return
    for offset, position in index.entries():
        if not segment.has_batch_ending_at(offset, position):
            text = f"its entry for offset {base + offset} is wrong; it is rebuilt when it is read"
            yield Finding(REMARK, folder, name, position, text)
            return
