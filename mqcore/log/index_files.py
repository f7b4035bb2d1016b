"""Store: reads and writes the index files of a segment.

Own rule: a missing or damaged file is not a fault. The caller rebuilds both indexes from the batches.
"""

from __future__ import annotations

from contextlib import closing

from mqcore.disk.port import Disk
from mqcore.log.index import TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from mqcore.log.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX


def read_indexes(disk: Disk, stem: str, segment_bytes: int) -> tuple[OffsetIndex, TimeIndex] | None:
    """None if a file is missing or not valid for a segment of that size."""
    try:
        index = OffsetIndex.decode(disk.read_whole(stem + INDEX_SUFFIX), segment_bytes)
        time_index = TimeIndex.decode(disk.read_whole(stem + TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    if index is None or time_index is None or (segment_bytes and not len(time_index)):
        return None
    return index, time_index


def read_last_time_entry(disk: Disk, stem: str) -> tuple[int, int] | None:
    """(timestamp, relative offset) of the last entry. Reads only the end of the file.

    None if the file is missing or its last two entries are not valid."""
    try:
        file = disk.open(stem + TIME_INDEX_SUFFIX)
    except FileNotFoundError:
        return None
    with closing(file):
        size = file.size - file.size % TIME_ENTRY_BYTES
        index = TimeIndex.decode(file.read(max(0, size - 2 * TIME_ENTRY_BYTES), min(size, 2 * TIME_ENTRY_BYTES)))
        return index.last if index is not None and size == file.size else None


def write_indexes(disk: Disk, stem: str, index: OffsetIndex, time_index: TimeIndex, extra_suffix: str) -> list[str]:
    """Write both files, not yet durably. Returns their paths."""
    paths = []
    for suffix, content in ((INDEX_SUFFIX, index.encode()), (TIME_INDEX_SUFFIX, time_index.encode())):
        path = stem + suffix + extra_suffix
        with closing(disk.open(path, create=True)) as file:
            file.truncate(0)
            file.append((content,))
        paths.append(path)
    return paths
