"""Codec: HMAC-SHA256 of short texts.

`hmac.digest` of the standard library lets go of the interpreter's lock for each call and has to wait for it again: with
fifty threads at work, four signatures cost more than all the rest of a purchase. Hashing a short text does not, and the
two halves of the key are hashed once.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

_BLOCK = 64


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    inner, outer = _begun(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    signature: bytes = outer.digest()
    return signature


@lru_cache(maxsize=8)
def _begun(key: bytes) -> tuple[Any, Any]:
    block = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    return hashlib.sha256(bytes(each ^ 0x36 for each in block)), hashlib.sha256(bytes(each ^ 0x5C for each in block))
