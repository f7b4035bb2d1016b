"""Values: what can go wrong here that a user can mend."""

from __future__ import annotations


class StatsFault(Exception):
    """Says what happened and what to do; shown as one line, without a traceback."""


class AnotherLog(StatsFault):
    """Offsets that are remembered belong to a log that is not this one. Waiting does not mend it."""
