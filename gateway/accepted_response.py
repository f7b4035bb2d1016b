"""Codec: the body of the 202 for a queued request, and when the client should poll again."""

from __future__ import annotations

import random
from uuid import UUID

import orjson

from gateway.backlog import Estimate
from seckill.messaging.record_position import RecordPosition

POLL_MS, POLL_MS_MAX, SETTLED_POLL_MS = 500, 5_000, 10_000


def encode_accepted(
    request_id: UUID, position: RecordPosition, deadline_ms: int, estimate: Estimate | None, signed_position: str
) -> bytes:
    status_url = f"/api/v1/purchases/{request_id}"
    return orjson.dumps(
        {
            "request_id": request_id,
            "status_url": f"{status_url}?place={signed_position}",
            "events_url": f"{status_url}/events?place={signed_position}",
            "deadline_ms": deadline_ms,
            "topic": position.topic,
            "partition": position.partition,
            "offset": position.offset,
            "position_estimate": None if estimate is None else estimate.ahead,
            "eta_ms": None if estimate is None else estimate.wait_ms,
        }
    )


def poll_after_ms(estimate: Estimate | None, *, is_settled: bool = False) -> int:
    """Sooner when the decision is near. A random factor spreads the clients, so that they do not poll all at once."""
    wait_ms = POLL_MS if estimate is None or estimate.wait_ms is None else estimate.wait_ms // 3
    wait_ms = SETTLED_POLL_MS if is_settled else min(max(POLL_MS, wait_ms), POLL_MS_MAX)
    return int(wait_ms * random.uniform(0.75, 1.25))
