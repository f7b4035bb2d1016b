"""Values: the faults of a log, and the rule that decides which disk errors make a log fail.

A `LogFault` takes its partition offline; it is never repaired where it is raised.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

DESCRIPTOR_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE})  # raised when opening a file, never by an fsync
FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # EFBIG: `ulimit -f`, a limit like a quota
RETRYABLE_ERRNOS: Final = FULL_ERRNOS | {errno.ENOMEM} | DESCRIPTOR_ERRNOS


class LogFault(Exception):
    """The log in `directory` cannot be used any more, because of `reason`."""

    def __init__(self, message: str, directory: str, reason: str) -> None:
        super().__init__(message)
        self.directory = directory
        self.reason = reason


class CorruptLog(LogFault):
    """Bytes that were valid once are damaged. Nothing was cut: `mqcore doctor` shows the damage and cuts on request."""

    def __init__(self, directory: str, file: str, position: int, reason: str) -> None:
        super().__init__(f"{directory}/{file} is corrupt at position {position}: {reason}", directory, reason)
        self.file = file
        self.position = position


class LogFailed(LogFault):
    """The disk failed under the log, so its content is uncertain. The log refuses every further append and sync."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"{directory} failed: {reason}", directory, reason)


class FaultPolicy:
    """Decides which disk errors make one log fail. A failed log stays failed; nothing here retries."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.failure: str | None = None

    def check(self) -> None:
        if self.failure is not None:
            raise LogFailed(self._directory, self.failure)

    def raise_if_fatal(self, error: OSError) -> None:
        """Return if the caller may retry after `error` (a full disk, no descriptors); then it re-raises `error`."""
        if error.errno not in RETRYABLE_ERRNOS:
            self._fail(error)

    @contextlib.contextmanager
    def retryable(self) -> Iterator[None]:
        """Wrap a step that can be repeated, for example once a full disk has space again."""
        try:
            yield
        except OSError as error:
            self.raise_if_fatal(error)
            raise

    @contextlib.contextmanager
    def fatal_on_error(self) -> Iterator[None]:
        """Wrap an all-or-nothing step: after any error inside, memory and disk may disagree, so the log fails."""
        try:
            yield
        except OSError as error:
            self._fail(error)

    @contextlib.contextmanager
    def retryable_before_sync(self) -> Iterator[None]:
        """Wrap a sync. A file that could not be opened may be synced later; every other error is final."""
        try:
            yield
        except OSError as error:
            if error.errno in DESCRIPTOR_ERRNOS:
                raise
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.failure = str(error)
        raise LogFailed(self._directory, self.failure) from error
