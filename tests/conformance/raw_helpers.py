"""Helpers for tests over raw connections."""

from __future__ import annotations

from uuid import UUID

from mqcore.wire.errors import ErrorCode

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
NO_TOPIC = UUID(int=1)


def name(code: int) -> str:
    return ErrorCode(code).name
