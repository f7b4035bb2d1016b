"""Shell: the status of a purchase as server-sent events.

GET /api/v1/purchases/{id}/events sends the same bodies as the status address, each as soon as it is true, and the
position in the queue when it has changed. An event's id is the version of the outcome, so a client that reconnects with
Last-Event-ID receives only newer ones. The signed position in the address is the permission, because a browser's
EventSource cannot send our headers; with a bearer token the address works without it.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.conf import settings
from django.db import Error as DatabaseError
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]  # named there, though not exported

from gateway import purchase_status, signed_positions
from gateway.http import Request, Response
from gateway.purchase_status import PurchaseStatus
from gateway.signed_positions import SignedPosition
from gateway.subscriptions import StreamHub, Subscriber
from seckill.web import tokens
from seckill.web.client_address import identify_client
from seckill.web.problems import Problem

POSITION_INTERVAL_S = 1.0
POSITIONS_PER_SECOND_MAX = 2000
"""Shared by all streams of the process: with more streams, each gets its position less often."""
HEARTBEAT_S = 15.0
STREAM_SECONDS_MAX = 30 * 60.0
LINK_VALID_S = 3600
"""How long a signed address stays a permission after the deadline of its request."""
STREAM_HEADERS = [
    ("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-store"), ("x-accel-buffering", "no"),
]  # fmt: skip


class StreamRequest(NamedTuple):
    request_id: UUID
    signed: SignedPosition | None
    user_id: str
    last_event_id: int  # -1: the client has seen no event
    address: str


def parse_stream_request(request: Request, request_id: UUID) -> StreamRequest:
    """Raises `Problem` unless the client may see this purchase."""
    signed = signed_positions.verify_position(request_id, request.query("place"))
    if signed is not None and not _is_permission(signed):
        signed = None  # an old or leaked link; the token has to identify the user
    user_id = tokens.user_of_bearer(request.headers.get("authorization", "")) if signed is None else signed.user_id
    last = request.headers.get("last-event-id", "")
    address = identify_client(request.peer, request.headers.get("x-forwarded-for", "")).address
    last_event_id = int(last) if last.isdecimal() and len(last) < 10 else -1
    return StreamRequest(request_id, signed, user_id, last_event_id, address)


async def stream_purchase(hub: StreamHub, request: Request, request_id: UUID) -> Response | None:
    """None once the stream has ended."""
    asked = parse_stream_request(request, request_id)
    if not hub.has_room(request_id, asked.address):
        raise Problem(503, "too-many-streams", "Poll the status address instead.", retry_after_s=5)
    # Subscribe before reading the status, so that no change falls between the two.
    with hub.subscribed(request_id, asked.address) as subscriber:
        status = await purchase_status.fetch_status(request_id, asked.signed)
        if status is None or status.user_id != asked.user_id:
            raise Problem(404, "no-such-purchase", "You have no such request.")
        if _has_seen_the_end(status, asked.last_event_id):
            return Response(204, [], b"")  # makes an EventSource stop reconnecting
        transport = request.protocol.response_stream(200, [*STREAM_HEADERS, *request.response_headers])
        watch = asyncio.get_running_loop().create_task(_end_when_disconnected(request.protocol, subscriber))
        try:
            await _send_events(hub, subscriber, status, asked, transport)
        except ProtocolClosed:
            pass  # the client has disconnected
        finally:
            watch.cancel()
    return None


async def _send_events(
    hub: StreamHub, subscriber: Subscriber, status: PurchaseStatus, asked: StreamRequest, transport: Any
) -> None:
    """Until the outcome is final, the client disconnects, the process stops, or the time limit is reached."""
    await transport.send_str(f"retry: {random.randrange(1000, 3000)}\n\n")
    sent, last_version = "", asked.last_event_id
    ends_at = time.monotonic() + STREAM_SECONDS_MAX
    heartbeat_at = time.monotonic() + HEARTBEAT_S
    while not subscriber.is_ended and time.monotonic() < ends_at:
        event = _encode_event(status, last_version)
        if event and event != sent:
            sent = event
            await transport.send_str(event)
            heartbeat_at = time.monotonic() + HEARTBEAT_S
        if status.outcome is not None:
            last_version = max(last_version, status.outcome.version)
            if status.outcome.is_final:
                return
        position_s = max(POSITION_INTERVAL_S, hub.stream_count / POSITIONS_PER_SECOND_MAX)
        outcome = await subscriber.next_outcome(HEARTBEAT_S if status.outcome is not None else position_s)
        if outcome is not None:
            status = status._replace(outcome=outcome)
            continue
        if time.monotonic() >= heartbeat_at:
            heartbeat_at = time.monotonic() + HEARTBEAT_S
            await transport.send_str(": heartbeat\n\n")
        if status.outcome is not None or not purchase_status.is_certainly_queued(status):
            fresh = await _fetch_again(asked)
            if fresh is not None and (fresh.outcome is not None or status.outcome is None):
                status = fresh  # an outcome that was shown is never taken back


async def _fetch_again(asked: StreamRequest) -> PurchaseStatus | None:
    """None while the status is not known; the stream stays open."""
    try:
        return await purchase_status.fetch_status(asked.request_id, asked.signed)
    except (Problem, DatabaseError):
        return None


async def _end_when_disconnected(protocol: Any, subscriber: Subscriber) -> None:
    await protocol.client_disconnect()
    subscriber.end()


def _is_permission(signed: SignedPosition) -> bool:
    deadline_s = signed.deadline_ms / 1000
    if time.time() > deadline_s + LINK_VALID_S:
        return False
    return not tokens.is_revoked(deadline_s - settings.ENVIRONMENT.purchase_deadline_s)


def _has_seen_the_end(status: PurchaseStatus, last_version: int) -> bool:
    return status.outcome is not None and status.outcome.is_final and status.outcome.version <= last_version


def _encode_event(status: PurchaseStatus, last_version: int) -> str:
    """Empty if the client already has this version."""
    data = orjson.dumps(status.body(status.estimate)).decode()
    if status.outcome is None:
        return f"event: purchase\ndata: {data}\n\n"
    version = status.outcome.version
    return f"id: {version}\nevent: purchase\ndata: {data}\n\n" if version > last_version else ""
