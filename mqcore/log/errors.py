"""Values: the two faults of a log, and the rule by which a fault of the disk becomes one.

Both take the partition offline; neither is repaired where it is raised.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})  # raised where a file is opened, never by an fsync
PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM}) | NO_DESCRIPTORS


class CorruptLog(Exception):
    """Bytes that were once valid are not any more. Nothing was cut; `mqcore doctor` shows and cuts on order."""

    def __init__(self, directory: str, file: str, position: int, reason: str) -> None:
        super().__init__(f"{directory}/{file} is corrupt at position {position}: {reason}")
        self.directory = directory
        self.file = file
        self.position = position
        self.reason = reason


class LogFailed(Exception):
    """The disk under the log failed. What it holds is unknown, so it takes no append and no sync any more."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory} failed: {reason}")
        self.directory = directory
        self.reason = reason


class Faults:
    """Whether a log has failed, and what makes it fail. Nothing is retried, and it never recovers."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.failure: str | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise LogFailed(self._directory, self.failure)

    def judge(self, error: OSError) -> None:
        """Return if the fault may pass (a full disk, no descriptors), so that the caller raises it as it is."""
        if error.errno not in PASSING:
            self._fail(error)

    @contextlib.contextmanager
    def may_pass(self) -> Iterator[None]:
        """Around what can be repeated after a full disk."""
        try:
            yield
        except OSError as error:
            self.judge(error)
            raise

    @contextlib.contextmanager
    def no_way_back(self) -> Iterator[None]:
        """Around what must happen wholly: after any fault in here, files and memory may differ."""
        try:
            yield
        except OSError as error:
            self._fail(error)

    @contextlib.contextmanager
    def syncing(self) -> Iterator[None]:
        """Around a sync, which may be repeated if a file or folder could not be opened. Any other fault is final."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = str(error)
        raise LogFailed(self._directory, self.failure) from error
