"""Codec: the signature of a callback, HMAC-SHA256 over time and body. It expires after five minutes."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "X-Provider-Signature"
AGE_SECONDS_MAX = 300


def sign(secret: str, body: bytes, at_s: int) -> str:
    digest = hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def is_genuine(secret: str, body: bytes, header: str, now_s: int) -> bool:
    fields = dict(part.partition("=")[::2] for part in header.split(","))
    time = fields.get("t", "")
    if not (time.isascii() and time.isdecimal() and len(time) < 20) or abs(now_s - int(time)) > AGE_SECONDS_MAX:
        return False
    return hmac.compare_digest(sign(secret, body, int(time)).encode(), header.encode())
