"""Values: what can go wrong here that a user can mend."""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = re.compile(r"(Caused by: )?(?P<said>((\w+\.)+[A-Z]\w*|\w+(Error|Exception)): .*[^:\s])$")


class StatsFault(Exception):
    """Says what happened and what to do; shown as one line, without a traceback."""


class AnotherLog(StatsFault):
    """Offsets that are remembered belong to a log that is not this one. Waiting does not mend it."""


def plain(fault: object) -> str:
    """The line that says what happened, out of the many that Java adds: the last that names an error and says more."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    told = [found["said"] for found in map(_NAMED.match, lines) if found]
    return (told[-1] if told else lines[0] if lines else type(fault).__name__)[:300]
