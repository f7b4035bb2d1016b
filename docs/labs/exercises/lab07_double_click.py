"""Lab 7 · double click and lost response: three small tasks about idempotency keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


def request_id(secret: bytes, user: str, sale: int, key: str) -> str:
    """Task 1: the same call always has the same id, different calls have different ids, and without the secret no one
    can compute it. Mind users and keys that only look different when you know where one ends: "ab" + "c" and "a" +
    "bc"."""
    raise NotImplementedError("task 7.1")


class Conflict(Exception):
    """The key was used for another body (HTTP 422)."""


@dataclass
class Answers:
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)  # key → (body, answer)


def answer(answers: Answers, key: str, body: str, handle: Callable[[str], str]) -> str:
    """Task 2: the first call with a key is handled; later ones get its answer. Another body under the same key is a
    `Conflict`. If `handle` raises, nothing is kept, so that the buyer can try again."""
    raise NotImplementedError("task 7.2")


class Buyer:
    """The client's side. `send(key)` returns the response, or None if it was lost."""

    def __init__(self, send: Callable[[str], str | None]) -> None:
        self.send = send


def buy(buyer: Buyer, attempts_max: int) -> str | None:
    """Task 3: one wish: repeat the call until a response arrives, at most `attempts_max` times. A second call of `buy`
    is another wish. Where does the key belong?"""
    raise NotImplementedError("task 7.3")
