"""Machine: the records that the leader has accepted and not appended yet, because the last batch is not durable.

The log never has two batches that are not durable: a power loss could keep the second and lose the first, which looks
like corruption. What is accepted during a sync becomes the next batch, so many changes share one sync.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqcore.wire.records import OWN_BATCH_BYTES_MAX, BatchTooLarge, Record

RECORD_OVERHEAD_BYTES_MAX: Final = 32
"""Of the lengths, the attributes and the differences of timestamp and offset."""


def bytes_at_most(records: Sequence[Record]) -> int:
    return sum(len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES_MAX for record in records)


class CollectedRecords:
    def __init__(self) -> None:
        self._groups: deque[tuple[Sequence[Record], int]] = deque()
        self.count = 0

    def add(self, records: Sequence[Record], limit_bytes: int) -> None:
        """Raises `BatchTooLarge` if the records might not fit into one batch."""
        size = bytes_at_most(records)
        if size > min(limit_bytes, OWN_BATCH_BYTES_MAX):
            raise BatchTooLarge(f"the records take more than {limit_bytes} bytes, the limit of one batch")
        self._groups.append((records, size))
        self.count += len(records)

    def take(self) -> list[Record]:
        """The records of the next batch. Those of one `add` stay together: they are one decision."""
        taken: list[Record] = []
        left = OWN_BATCH_BYTES_MAX
        while self._groups and self._groups[0][1] <= left:
            records, size = self._groups.popleft()
            taken += records
            left -= size
        self.count -= len(taken)
        return taken

    def clear(self) -> None:
        self._groups.clear()
        self.count = 0
