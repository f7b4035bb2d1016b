"""Codec: tickets: the way into a sale, given out once it is open, to one user, for a short time and one purchase.

A link cannot be prepared or shared: it leads nowhere without a ticket, and a ticket is signed for its user and sale.
The first idempotency key it comes with has it (gateway/admission.py remembers which).
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from seckill import tokens

LIFE_MS = 2 * 60 * 1000


class Ticket(NamedTuple):
    number: str
    expires_at_ms: int


def issue(user_id: str, sale_id: int, now_ms: int) -> tuple[str, Ticket]:
    """`now_ms` is of the one clock."""
    ticket = Ticket(secrets.token_hex(8), now_ms + LIFE_MS)
    return tokens.sealed("ticket", f"{sale_id}.{ticket.expires_at_ms}.{ticket.number}.{user_id}"), ticket


def read(text: str, user_id: str, sale_id: int) -> Ticket | None:
    """None: nothing we have given to this user for this sale. Whether its time is over is for the one clock to say."""
    told = tokens.opened("ticket", text)
    if told is None:
        return None
    sale, expires, number, user = told.split(".", 3)
    return Ticket(number, int(expires)) if (sale, user) == (str(sale_id), user_id) else None
