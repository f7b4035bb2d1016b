"""Codec: tickets. A purchase needs one, and they are issued from the opening on, to one user, for two minutes.

So a purchase link can be neither prepared nor shared. The first idempotency key that uses a ticket owns it
(gateway/admission.py remembers which).
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from seckill.web import tokens

LIFE_MS = 2 * 60 * 1000


class Ticket(NamedTuple):
    number: str
    expires_at_ms: int


def issue_ticket(user_id: str, sale_id: int, now_ms: int) -> tuple[str, Ticket]:
    """The signed text and what it says. `now_ms` is Redis TIME."""
    ticket = Ticket(secrets.token_hex(8), now_ms + LIFE_MS)
    return tokens.sign_text("ticket", f"{sale_id}.{ticket.expires_at_ms}.{ticket.number}.{user_id}"), ticket


def verify_ticket(text: str, user_id: str, sale_id: int) -> Ticket | None:
    """None if we did not issue it to this user for this sale. Whether it has expired is decided in Redis, by its
    clock."""
    content = tokens.verify_text("ticket", text)
    if content is None:
        return None
    sale, expires, number, user = content.split(".", 3)
    return Ticket(number, int(expires)) if (sale, user) == (str(sale_id), user_id) else None
