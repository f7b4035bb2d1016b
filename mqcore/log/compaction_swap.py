"""Store: replaces original segments with a cleaned one, so that a crash at any step loses nothing.

    <base>.log.cleaned   being written; discarded after a crash
    <base>.log.swap      complete and durable; after a crash, `finish_swaps` completes the replacement

A cleaned segment covers its group of originals from its base offset to the end of its last batch, which compaction
always keeps.
"""

from __future__ import annotations

from mqcore.disk.port import Disk
from mqcore.log.segment import Segment
from mqcore.log.segment_files import LOG_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, parse_base_offset, segment_name


def finish_swaps(disk: Disk, directory: str) -> list[str]:
    """Complete every replacement that a crash interrupted. Returns the names of the `.swap` files."""
    finished = []
    for name in disk.names(directory):
        base = parse_base_offset(name, LOG_SUFFIX + SWAP_SUFFIX)
        if base is not None:
            end = base
            swapped = Segment(disk, directory, base, file=disk.open(f"{directory}/{name}"))
            for _, header in swapped.headers():
                end = header.next_offset
            finish_swap(disk, directory, base, end)
            finished.append(name)
    return finished


def finish_swap(disk: Disk, directory: str, base: int, end: int) -> None:
    """Remove the originals in [base, end), then rename `.swap` to `.log`.

    The folder is synced between the two steps. Otherwise a power loss could keep the rename and undo a removal, and an
    original would overlap with the cleaned segment."""
    path = f"{directory}/{segment_name(base)}"
    for name in disk.names(directory):
        for suffix in SEGMENT_SUFFIXES:
            original = parse_base_offset(name, suffix)
            is_replaced_by_rename = name == segment_name(base)
            if original is not None and base <= original < end and not is_replaced_by_rename:
                disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
    disk.rename(path + SWAP_SUFFIX, path)
    disk.sync_directory(directory)
