"""Compare the fields of an event with the fields of its row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from seckill.report.verdicts import Findings, Subject

ROUNDED_MS = 1
"""Times are truncated to milliseconds in messages and rounded in tables."""


class ComparedField(NamedTuple):
    """A field of an event and the same field of its row. None where a source does not provide it."""

    name: str
    published: object
    stored: object

    @property
    def differs(self) -> bool:
        if self.published is None or self.stored is None or self.published == self.stored:
            return False
        if self.name.endswith("_ms") and isinstance(self.published, int) and isinstance(self.stored, int):
            return abs(self.published - self.stored) > ROUNDED_MS
        return True


def optional_text(text: str, beside: object) -> str | None:
    """None if an older version of the event lacks the field; `beside` is a field that was added at the same time."""
    return None if beside is None else text


def compare_fields(findings: Findings, what: str, fields: Iterable[ComparedField], subject: Subject) -> None:
    for field in fields:
        if field.differs:
            findings.add_violation(
                f"{what}: {field.name} was published as {field.published}, but stored as {field.stored}", subject
            )
