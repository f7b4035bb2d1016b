"""Codec: signed texts: the token of a signed-in user, and other short texts that only our processes may issue.

Each signature is for one purpose, so a ticket is never accepted as a token. A purchase needs four signatures, so
`_signature` copies a state that already contains key and purpose. Do not use `hmac.digest`: it releases the GIL, so the
gateway's loop would have to wait for it while another thread runs. Keys in SECRET_KEY_FALLBACKS still verify but never
sign, as in Django.
"""

from __future__ import annotations

import base64
import hmac
import time
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

from seckill.web.problems import Problem


def issue_token(user_id: str, now_s: float | None = None) -> str:
    expires_s = int((time.time() if now_s is None else now_s) + settings.ENVIRONMENT.token_life_s)
    return sign_text("user", f"{expires_s}.{user_id}")


def verify_token(token: str) -> str | None:
    """The user's id; None if the token is forged, damaged, expired or revoked."""
    expires_s, _, user_id = (verify_text("user", token) or "").partition(".")
    if not expires_s or int(expires_s) < time.time():
        return None
    return None if is_revoked(int(expires_s) - settings.ENVIRONMENT.token_life_s) else user_id


def is_revoked(issued_s: float) -> bool:
    """SECKILL_TOKENS_VALID_FROM_S revokes everything issued before it, without a change of the key."""
    return bool(issued_s < settings.ENVIRONMENT.tokens_valid_from_s)


def user_of_request(request: HttpRequest) -> str:
    return user_of_bearer(str(request.META.get("HTTP_AUTHORIZATION", "")))


def user_of_bearer(authorization: str) -> str:
    """The user named by an Authorization header. Raises a 401 `Problem` if it holds no valid token."""
    scheme, _, token = authorization.partition(" ")
    user_id = verify_token(token.strip()) if scheme.lower() == "bearer" else None
    if user_id is None:
        raise Problem(401, "not-signed-in", "Send the token from POST /api/v1/sessions as a bearer token.")
    return user_id


def sign_text(purpose: str, text: str) -> str:
    """The text, which anyone can decode, with our signature."""
    content = text.encode()
    return f"{_encode(content)}.{_signature(settings.SECRET_KEY, purpose, content)}"


def verify_text(purpose: str, token: str) -> str | None:
    """The text that was signed for this purpose; None if the signature does not match."""
    encoded, _, signature = token.partition(".")
    try:
        content = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        if _encode(content) != encoded:
            return None  # another spelling of the same bytes
        is_ours = hmac.compare_digest(_signature(settings.SECRET_KEY, purpose, content), signature) or any(
            hmac.compare_digest(_signature(key, purpose, content), signature) for key in settings.SECRET_KEY_FALLBACKS
        )
        return content.decode() if is_ours else None
    except (ValueError, TypeError):  # not base64, not UTF-8, not ASCII
        return None


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _signature(key: str, purpose: str, content: bytes) -> str:
    state = _state(key, purpose).copy()
    state.update(content)
    return state.hexdigest()


@lru_cache(maxsize=64)
def _state(key: str, purpose: str) -> hmac.HMAC:
    return hmac.new(key.encode(), purpose.encode() + b":", "sha256")
