"""Codec: the names of the files of a segment.

00000000000000000042.log          batches from offset 42 on
00000000000000000042.index        offset → position
00000000000000000042.timeindex    timestamp → offset
00000000000000000042.snapshot     the state of producers before offset 42
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

DELETED_SUFFIX: Final = ".deleted"  # appended to a segment's files before they are unlinked
CLEANED_SUFFIX: Final = ".cleaned"  # appended to the files that compaction is writing
SWAP_SUFFIX: Final = ".swap"  # appended to a cleaned segment that replaces its originals
TEMPORARY_SUFFIX: Final = ".tmp"  # appended to a file that `Disk.replace` is writing

_DIGITS: Final = 20


def segment_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_base_offset(name: str, suffix: str = LOG_SUFFIX) -> int | None:
    """The base offset in a file's name; None if it is not the name of such a file."""
    stem = name.removesuffix(suffix)
    is_segment_file = name.endswith(suffix) and len(stem) == _DIGITS and stem.isascii() and stem.isdigit()
    return int(stem) if is_segment_file else None


def segment_bases(names: Iterable[str], suffix: str = LOG_SUFFIX) -> list[int]:
    """The base offsets of all segments among the names of a folder, rising if the names are sorted."""
    return [base for name in names if (base := parse_base_offset(name, suffix)) is not None]
