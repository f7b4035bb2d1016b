"""Port: the journal of a machine, which keeps its facts in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from mqcore.identity import Offset
from mqcore.partitions.waiting_requests import OnCommit

FactIn = TypeVar("FactIn", contravariant=True)


class JournalFault(Exception):
    """The facts could not be appended, or will never be committed, for example because the disk is full."""


class LeadershipLost(JournalFault):
    """This broker does not lead the partition of the journal any more."""


class NotController(LeadershipLost):
    """Another node is, or becomes, the active controller. Commands that were under way may or may not take effect."""


class UnreadableJournal(JournalFault):
    """The journal cannot be read back: the disk failed, or its bytes are damaged."""


class CommandFailed(JournalFault):
    """A rule, a codec or `apply` raised an exception that none of them documents: a defect of the broker."""


class FactsTooLarge(JournalFault):
    """The facts of one decision do not fit into one batch. Nothing was written, and a retry fails the same way."""


class Journal(Protocol, Generic[FactIn]):
    def append(self, facts: Sequence[FactIn]) -> Offset:
        """Append the facts that are kept as one batch. Return the end offset that has to be committed for them.

        If none of the facts is kept, return the current end. Raises `JournalFault` and then changes nothing.
        """
        ...

    def when_committed(self, end: Offset, on_commit: OnCommit) -> None:
        """Call `on_commit` once everything below `end` is committed, or never will be. May call it immediately."""
        ...
