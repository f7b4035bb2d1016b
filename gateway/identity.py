"""Codec: the id of a request, derived from its user, sale and Idempotency-Key: the same call has the same id.

It is a UUID of version 8 (RFC 9562, custom contents) over an HMAC, so nobody can compute another user's ids. A new
SECRET_KEY changes the ids, so a retry across the change counts as a new request.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from uuid import UUID

VERSION = 8


def derive_request_id(secret: str, user_id: str, sale_id: int, key: str) -> UUID:
    state = _state(secret).copy()
    state.update(f"{sale_id}:{len(user_id)}:{user_id}:{key}".encode())
    number = int.from_bytes(state.digest()[:16], "big")
    number = number & ~(0xF << 76) | VERSION << 76  # version
    number = number & ~(0x3 << 62) | 0x2 << 62  # variant
    return UUID(int=number)


@lru_cache(maxsize=8)
def _state(secret: str) -> hmac.HMAC:
    """The HMAC before the text is added; see `seckill.web.tokens`."""
    return hmac.new(secret.encode(), b"request:", "sha256")
