"""Codec: the identity of a request, derived from who asks for what under which key: the same call is the same request.

UUID version 8 (RFC 9562: contents of one's own) over an HMAC, so that nobody can compute another user's.
"""

from __future__ import annotations

from uuid import UUID

from seckill.signing import hmac_sha256

VERSION = 8


def request_id(secret: str, user_id: str, sale_id: int, key: str) -> UUID:
    text = f"request:{sale_id}:{len(user_id)}:{user_id}:{key}"
    number = int.from_bytes(hmac_sha256(secret.encode(), text.encode())[:16], "big")
    number = number & ~(0xF << 76) | VERSION << 76  # version
    number = number & ~(0x3 << 62) | 0x2 << 62  # variant
    return UUID(int=number)
