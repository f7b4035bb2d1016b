"""Lab 4 · save, then send: three small tasks about the outbox and its readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy


class Database:
    """Two tables. Inside `transaction` an exception restores both."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.outbox: list[str] = []
        self.is_in_transaction = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = deepcopy((self.orders, self.outbox))
        self.is_in_transaction = True
        try:
            yield
        except BaseException:
            self.orders, self.outbox = before
            raise
        finally:
            self.is_in_transaction = False


def place_order(database: Database, order: str, crash: Callable[[str], None]) -> None:
    """Task 1: store the order and its message (`placed ORDER`) so that a crash leaves both or neither. Call
    `crash("order")` after you have stored the order and `crash("message")` after the message; either may raise."""
    with database.transaction():
        database.orders.append(order)
        crash("order")
        database.outbox.append(f"placed {order}")
        crash("message")


def relay_all(database: Database, send: Callable[[str], None]) -> None:
    """Task 2: send every message of the outbox, in order, and delete it. `send` returns when the broker has
    acknowledged the message, and raises if it did not. No message may be lost or overtaken; it may be sent twice."""
    while database.outbox:
        send(database.outbox[0])
        del database.outbox[0]


def receive(seen: set[str], event_id: str, apply: Callable[[], None]) -> bool:
    """Task 3: an idempotent receiver: apply each event once, however often it comes. False: it was a repetition. If
    `apply` raises, the event has had no effect, and the next delivery must try again."""
    if event_id in seen:
        return False
    apply()
    seen.add(event_id)
    return True
