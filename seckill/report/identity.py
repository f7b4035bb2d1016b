"""Values: the ids of requests, orders, payments and events: UUIDs as interned lower-case text.

Text rather than `uuid.UUID`, because dozens of tables hold millions of ids and text is compared and hashed in C.
"""

from __future__ import annotations

import re
from sys import intern
from typing import NewType
from uuid import UUID

Id = NewType("Id", str)

_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


def identity(text: str) -> Id:
    """Parse a UUID in any notation. Raises `ValueError` or `TypeError` if it is not one."""
    if _CANONICAL(text) is None:
        text = str(UUID(text))
    return Id(intern(text))


def number(known: Id) -> int:
    """The id as an integer of 128 bits."""
    return int(known.replace("-", ""), 16)
