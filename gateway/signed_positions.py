"""Codec: the position of a request in its topic, signed, as part of its status address.

Any gateway can read from it whose request it is and how many requests are ahead of it, long before a decision is
projected.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from seckill.messaging.record_position import RecordPosition
from seckill.web import tokens


class SignedPosition(NamedTuple):
    user_id: str
    position: RecordPosition
    deadline_ms: int


def sign_position(request_id: UUID, signed: SignedPosition) -> str:
    user_id, position, deadline_ms = signed
    return tokens.sign_text("place", f"{request_id}|{position}|{deadline_ms}|{user_id}")


def verify_position(request_id: UUID, text: str) -> SignedPosition | None:
    """None if the signature is not ours or belongs to another request."""
    content = tokens.verify_text("place", text)
    if content is None:
        return None
    request, position, deadline_ms, user_id = content.split("|", 3)
    if request != str(request_id):
        return None
    return SignedPosition(user_id, RecordPosition.parse(position), int(deadline_ms))
