"""Codec: what a buyer is told of a request that is in the queue, and when he had better ask again."""

from __future__ import annotations

import random
from uuid import UUID

import orjson
from django.conf import settings

from gateway.backlog import Estimate
from gateway.places import Place

POLL_MS, LONGEST_POLL_MS, SETTLED_POLL_MS = 500, 5_000, 10_000


def accepted(request_id: UUID, place: Place, deadline_ms: int, estimate: Estimate | None, signed_place: str) -> bytes:
    status_url = f"/api/v1/purchases/{request_id}"
    return orjson.dumps(
        {
            "request_id": request_id,
            "status_url": f"{status_url}?place={signed_place}",
            "events_url": f"{settings.ENVIRONMENT.live_url}{status_url}/events?place={signed_place}",
            "deadline_ms": deadline_ms,
            "topic": place.topic,
            "partition": place.partition,
            "offset": place.offset,
            "position_estimate": None if estimate is None else estimate.ahead,
            "eta_ms": None if estimate is None else estimate.wait_ms,
        }
    )


def poll_after_ms(estimate: Estimate | None, *, is_settled: bool = False) -> int:
    """Sooner the nearer his turn is, and spread, so that a crowd does not come back all at once."""
    wait_ms = POLL_MS if estimate is None or estimate.wait_ms is None else estimate.wait_ms // 3
    wait_ms = SETTLED_POLL_MS if is_settled else min(max(POLL_MS, wait_ms), LONGEST_POLL_MS)
    return int(wait_ms * random.uniform(0.75, 1.25))
