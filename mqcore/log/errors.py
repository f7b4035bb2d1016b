"""Values: the two faults of a log. Both take the partition offline; neither is repaired where it is raised."""

from __future__ import annotations


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
