"""Decision: what a client asks of the event stream, and whether it may: parsed from the ASGI scope."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs
from uuid import UUID

from django.conf import settings

from gateway import signed_positions
from gateway.signed_positions import SignedPosition
from seckill.web import tokens
from seckill.web.client_address import client_address
from seckill.web.problems import Problem
from seckill.web.request_limits import header_problem

Scope = Mapping[str, Any]

EVENTS_PATH = re.compile(r"/api/v1/purchases/([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})/events")
QUERY_BYTES_MAX, QUERY_FIELDS_MAX = 2048, 8
LINK_VALID_S = 3600
"""How long a signed address stays a permission after the deadline of its request."""


class StreamRequest(NamedTuple):
    request_id: UUID
    signed: SignedPosition | None
    user_id: str
    last_event_id: int  # -1: the client has seen no event
    address: str


def parse_headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; repeated headers are joined. Raises `Problem` if they are too large or unreadable."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    if (problem := header_problem(pairs)) is not None:
        raise problem
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        values[name].append(value)
    return {name: ",".join(parts) for name, parts in values.items()}


def parse_request(scope: Scope, headers: Mapping[str, str]) -> StreamRequest:
    """Raises `Problem` unless the client may see this request."""
    found = EVENTS_PATH.fullmatch(scope["path"])
    if found is None:
        raise Problem(404, "no-such-address", "This address does not exist.")
    if scope["method"] != "GET":
        raise Problem(405, "wrong-method", "This address does not support this method.")
    request_id = UUID(found[1])
    signed = signed_positions.verify_position(request_id, _parse_place(scope["query_string"]))
    if signed is not None and not _is_permission(signed):
        signed = None  # an old or leaked link; the token has to identify the user
    scheme, _, token = headers.get("authorization", "").partition(" ")
    user_id = (
        signed.user_id if signed is not None else tokens.verify_token(token) if scheme.lower() == "bearer" else None
    )
    if user_id is None:
        raise Problem(401, "not-signed-in", "Use the events_url of your purchase, or send your token.")
    last = headers.get("last-event-id", "")
    last_event_id = int(last) if last.isdecimal() and len(last) < 10 else -1
    return StreamRequest(request_id, signed, user_id, last_event_id, _client_address(scope, headers))


def _parse_place(query_string: bytes) -> str:
    if len(query_string) > QUERY_BYTES_MAX:
        raise Problem(400, "bad-request", f"A query is limited to {QUERY_BYTES_MAX} bytes.")
    try:
        query = parse_qs(query_string.decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as error:
        raise Problem(400, "bad-request", f"A query is limited to {QUERY_FIELDS_MAX} fields.") from error
    return query.get("place", [""])[0]


def _client_address(scope: Scope, headers: Mapping[str, str]) -> str:
    peer = (scope.get("client") or ("",))[0]
    return client_address({"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": headers.get("x-forwarded-for", "")})


def _is_permission(signed: SignedPosition) -> bool:
    deadline_s = signed.deadline_ms / 1000
    if time.time() > deadline_s + LINK_VALID_S:
        return False
    return not tokens.is_revoked(deadline_s - settings.ENVIRONMENT.purchase_deadline_s)
