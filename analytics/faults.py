"""Values: errors that a user can fix."""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = re.compile(r"(Caused by: )?(?P<text>((\w+\.)+[A-Z]\w*|\w+(Error|Exception)): .*[^:\s])$")


class StatsFault(Exception):
    """The message says what happened and what to do. It is shown as one line without a traceback."""


class LogMismatch(StatsFault):
    """The offsets in the checkpoint belong to another cluster or to other topics. Retrying does not help."""


def error_summary(fault: object) -> str:
    """The one line of a Java or Python traceback that explains the error: the last one with an error name and a
    text."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    texts = [found["text"] for found in map(_NAMED.match, lines) if found]
    return (texts[-1] if texts else lines[0] if lines else type(fault).__name__)[:300]
