"""Values: what requests, orders, payments and events are known by: a UUID as lower-case text, one object for each.

Text, not `uuid.UUID`: a million of these stand in dozens of tables, and text compares and hashes in C.
"""

from __future__ import annotations

import re
from sys import intern
from typing import NewType
from uuid import UUID

Id = NewType("Id", str)

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


def identity(text: str) -> Id:
    """However it is written. `ValueError` or `TypeError` if it is none."""
    if _CANONICAL(text) is None:
        text = str(UUID(text))
    return Id(intern(text))


def number(known: Id) -> int:
    """Of 128 bits."""
    return int(known.replace("-", ""), 16)
