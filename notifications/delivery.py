"""One delivery: at its turn, once in effect. The sink knows the key, so asking twice is telling once."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from notifications.models import Delivery

PATIENCE_S = 3.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


def deliver(event_id: UUID, channel: str) -> bool:
    """True: it is done. Whoever holds the row's lock delivers; a second one finds it taken and leaves it."""
    with transaction.atomic():
        row = (
            Delivery.objects.select_for_update(skip_locked=True)
            .filter(event_id=event_id, channel=channel, state="due", due_at__lte=timezone.now())
            .first()
        )
        if row is None or _is_waiting(row):
            return False
        fault = _tell(row)
        row.attempts += 1
        if fault is None:
            row.state, row.done_at, row.last_fault = "done", timezone.now(), ""
        else:
            pause_s = min(FIRST_PAUSE_S * 2 ** min(row.attempts - 1, 10), LONGEST_PAUSE_S)
            row.due_at, row.last_fault = timezone.now() + timedelta(seconds=pause_s), fault[:500]
        row.save(update_fields=["attempts", "state", "done_at", "due_at", "last_fault"])
        return fault is None


def _is_waiting(row: Delivery) -> bool:
    """The same user's previous message on this channel comes first."""
    earlier = Delivery.objects.filter(channel=row.channel, user_id=row.user_id, id__lt=row.id, state="due")
    return earlier.exists()


def _tell(row: Delivery) -> str | None:
    """None: the sink has it; else what went wrong."""
    body = json.dumps({"key": f"{row.event_id}:{row.channel}", "user": row.user_id, "text": row.text}).encode()
    request = urllib.request.Request(
        f"{settings.ENVIRONMENT.sinks_url}/{row.channel}", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            return None
    except (OSError, urllib.error.URLError) as error:
        return str(error)
