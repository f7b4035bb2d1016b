"""Port: what the replica machines see of a log. `Log` has it."""

from __future__ import annotations

from typing import Protocol

from mqcore.log.epochs import EpochCache


class LogView(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def flushed_offset(self) -> int:
        """Everything below it is durable."""
        ...

    @property
    def epochs(self) -> EpochCache: ...


def acknowledged_end(log: LogView, *, durable_only: bool) -> int:
    """The end of what this replica may promise to keep: its whole log, or the durable part (`flush.messages=1`)."""
    return log.flushed_offset if durable_only else log.end_offset
