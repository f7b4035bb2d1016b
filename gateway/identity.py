"""Codec: the id of a request, derived from its user, sale and Idempotency-Key: the same call has the same id.

It is a UUID of version 8 (RFC 9562, custom contents) over an HMAC, so nobody can compute another user's ids. A new
SECRET_KEY changes the ids, so a retry across the change counts as a new request.
"""

from __future__ import annotations

import hmac
from uuid import UUID

VERSION = 8


def derive_request_id(secret: str, user_id: str, sale_id: int, key: str) -> UUID:
    text = f"request:{sale_id}:{len(user_id)}:{user_id}:{key}"
    number = int.from_bytes(hmac.digest(secret.encode(), text.encode(), "sha256")[:16], "big")
    number = number & ~(0xF << 76) | VERSION << 76  # version
    number = number & ~(0x3 << 62) | 0x2 << 62  # variant
    return UUID(int=number)
