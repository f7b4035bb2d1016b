"""Store: where a log stops being valid, and whether that is a torn write or corruption.

Own rule: recovery and `mqcore doctor` must judge a log alike, so both use this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

from mqcore.log.scan import ScanResult, find_valid_batch, scan_segment
from mqcore.log.segment import Segment
from mqcore.log.segment_files import segment_name
from mqcore.wire.batches import BatchHeader


class FirstInvalidBatch(NamedTuple):
    """The first place where the batches of a log do not continue."""

    segment_index: int
    position: int
    next_offset: int  # the log is valid below this offset
    reason: str
    is_misplaced: bool  # a complete batch in the wrong place: never the result of a torn write


class Validity(NamedTuple):
    next_offset: int
    first_invalid: FirstInvalidBatch | None


class ScanVisitor(Protocol):
    """What a scan reports while it reads."""

    def begin_segment(self, segment: Segment) -> None: ...

    def visit_batch(self, segment: Segment, position: int, header: BatchHeader) -> None: ...

    def end_segment(self, result: ScanResult) -> None: ...


def find_first_invalid(
    items: Sequence[Segment],
    *,
    first: int = 0,
    last_epoch: int = -1,
    gaps_allowed_in_active: bool = True,
    visitor: ScanVisitor | None = None,
) -> Validity:
    """Scan the segments from index `first` on, up to the end of the log or to the first invalid batch.

    Only compaction leaves gaps between offsets, and it never touches the active segment. So a gap there is invalid
    unless `gaps_allowed_in_active`: a follower may copy a compacted batch into its active segment."""
    next_offset = items[first].base_offset if items else 0
    for index, segment in enumerate(items[first:], first):
        is_active = index + 1 == len(items)
        if visitor is not None:
            visitor.begin_segment(segment)
        result = scan_segment(
            segment,
            next_offset,
            last_epoch,
            gaps_allowed=gaps_allowed_in_active or not is_active,
            each=_ignore if visitor is None else partial(visitor.visit_batch, segment),
        )
        if visitor is not None:
            visitor.end_segment(result)
        next_offset, last_epoch, reason = result.next_offset, result.last_epoch, result.reason
        if reason is None and not is_active and items[index + 1].base_offset != next_offset:
            reason = f"ends at offset {next_offset}, but the next segment begins at {items[index + 1].base_offset}"
        if reason is not None:
            invalid = FirstInvalidBatch(index, result.end_position, next_offset, reason, result.is_misplaced)
            return Validity(next_offset, invalid)
    return Validity(next_offset, None)


def find_continuation(items: Sequence[Segment], invalid: FirstInvalidBatch) -> str | None:
    """Where valid batches follow the invalid one, in words; None if none follow, so that it is a torn write."""
    places = [
        (items[invalid.segment_index], invalid.position + 1),
        *((later, 0) for later in items[invalid.segment_index + 1 :]),
    ]
    for segment, position in places:
        found = find_valid_batch(segment, position, invalid.next_offset)
        if found is not None:
            return f"{segment_name(segment.base_offset)} at {found}"
    return None


def _ignore(position: int, header: BatchHeader) -> None:
    pass
