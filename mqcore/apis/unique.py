"""Codec: remove duplicates from requests, so that a small request cannot cause a huge response."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def unique_by(entries: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """The last entry for each key, in the order in which the keys first appear."""
    return list({key(entry): entry for entry in entries}.values())
