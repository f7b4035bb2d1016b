"""Store: how cleaned segments take the place of the originals, crash-safe at every step.

    <base>.log.cleaned   being written; worthless until complete
    <base>.log.swap      complete and durable: from here on the swap is finished, after a crash by `finish_swaps`

A cleaned segment covers its group of originals from base to next offset of its last batch, which is always kept.
"""

from __future__ import annotations

from typing import Final

from mqcore.disk.port import Disk
from mqcore.log.segment import INDEX, LOG, TIME_INDEX, Segment, segment_name

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"


def finish_swaps(disk: Disk, directory: str, finished: list[str]) -> None:
    """Complete every swap that a crash interrupted."""
    for name in disk.names(directory):
        if name.endswith(LOG + SWAP):
            base = end = int(name[:20])
            swapped = Segment(disk, directory, base, file=disk.open(f"{directory}/{name}"))
            for _, header in swapped.headers():
                end = header.next_offset
            finish_swap(disk, directory, base, end)
            finished.append(name)


def finish_swap(disk: Disk, directory: str, base: int, end: int) -> None:
    """From `.swap` to `.log`: the originals in [base, end) go first, then the new name; then the folder."""
    path = f"{directory}/{segment_name(base)}"
    for name in disk.names(directory):
        stem, _, suffix = name.partition(".")
        covered = stem.isdigit() and base <= int(stem) < end
        own_log = name == segment_name(base)  # replaced by the rename itself
        if covered and not own_log and f".{suffix}" in (LOG, INDEX, TIME_INDEX):
            disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
    disk.rename(path + SWAP, path)
    disk.sync_directory(directory)
