"""Dead letters: kept as rows with everything there was, until replayed or discarded."""

from __future__ import annotations

from typing import Any

from seckill.streams.models import DeadLetter
from seckill.streams.offsets import Claim


def bury(claim: Claim, record: Any, *, reason: str) -> None:
    """Inside the transaction that advances the offsets past the record. Twice is once."""
    DeadLetter.objects.get_or_create(
        group=claim.group,
        topic_id=claim.topic_id,
        partition=record.partition,
        offset=record.offset,
        defaults={
            "topic": record.topic,
            "key": record.key,
            "value": record.value,
            "headers": [[name, value.hex() if value is not None else None] for name, value in record.headers],
            "reason": reason[:2000],
        },
    )
