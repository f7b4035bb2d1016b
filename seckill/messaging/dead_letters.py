"""Dead letters: rows that keep the whole record, announced in `<topic>.dead`, open until replayed or discarded.

A replay hands the record to its group's handler again, with its original position, in one transaction with the change
of the letter's state. So two replays have one effect, and nothing is appended to the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django.db import DataError, transaction
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from seckill.audit.trail import audited
from seckill.messaging import offsets, outbox
from seckill.messaging.models import DeadLetter
from seckill.messaging.records import Batch, Handler, HandlesDiscards, PermanentFailure, decode_record
from seckill.monitoring import traces

OUTBOX_WRITER = "letters"
REPLAYS_MAX = 3
TEXT_CHARACTERS_MAX = 2000
LETTER_BYTES_MAX = 512 * 1024
"""Limit of the copy in the `.dead` topic, where headers are added. The row keeps the whole record."""
HEADERS_MAX, HEADER_CHARACTERS_MAX = 32, 1000

State = DeadLetter.State
Obstacle = str | Promise
"""Why a letter was not replayed or discarded. Texts of exceptions are not translated."""


def record_dead_letter(claim: offsets.PartitionClaim, record: Any, *, reason: str, attempts: int) -> None:
    """Call this in the transaction that advances the offset past the record. Idempotent."""
    reason = _clean(reason)[:TEXT_CHARACTERS_MAX]
    letter, is_new = DeadLetter.objects.get_or_create(
        group=claim.group,
        topic_id=claim.topic_id,
        partition=record.partition,
        offset=record.offset,
        defaults={
            "cluster_id": claim.cluster_id,
            "topic": record.topic,
            "timestamp_ms": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [[_clean(name), value.hex() if value is not None else None] for name, value in record.headers],
            "reason": reason,
            "attempts": attempts,
        },
    )
    if is_new:
        headers = {
            "dead.group": claim.group,
            "dead.place": f"{record.topic}-{record.partition}@{record.offset}",
            "dead.reason": reason,
            "dead.attempts": str(attempts),
        }
        key = _clean((record.key or b"").decode(errors="replace"))[:200]
        value = record.value or b""
        if len(value) > LETTER_BYTES_MAX:
            headers["dead.truncated"] = f"{len(value)} bytes; letter {letter.id} has all of them"
        row = outbox.OutboxInsert(
            f"{record.topic}.dead", key, uuid4(), value[:LETTER_BYTES_MAX], _shorten(record.headers) | headers
        )
        outbox.insert_rows(OUTBOX_WRITER, [row])


def list_dead_letters(*, group: str | None = None, state: str | None = None) -> list[DeadLetter]:
    letters = DeadLetter.objects.order_by("id")
    if group is not None:
        letters = letters.filter(group=group)
    if state is not None:
        letters = letters.filter(state=state)
    return list(letters)


def find_replay_obstacle(letter: DeadLetter) -> Obstacle | None:
    """Why a replay would be refused (its state, or an unreadable record), or None. Changes nothing."""
    if letter.state not in (State.OPEN, State.QUARANTINED):
        return _already(letter)
    try:
        decode_record(_record(letter))
    except PermanentFailure as bad:
        return str(bad)
    return None


def replay(letter: DeadLetter, handler: Handler, *, quarantined: bool = False) -> Obstacle | None:
    """Returns None, or why it failed. After `REPLAYS_MAX` failures it needs `quarantined`."""
    assert handler.group == letter.group
    with audited("letters replay", _name(letter), id=letter.id) as act:
        why = _replay(letter, handler, quarantined=quarantined)
        act.result = act.result if why is None else why
    return why


def _replay(letter: DeadLetter, handler: Handler, *, quarantined: bool) -> Obstacle | None:
    states = [State.OPEN, *([State.QUARANTINED] if quarantined else [])]
    try:
        with transaction.atomic():
            if not _close(letter, states, State.REPLAYED):
                return _already(DeadLetter.objects.get(id=letter.id))
            batch = _batch(letter)
            with _trace_context(batch):
                handler.handle(batch)
    except Exception as fault:  # any failure becomes the letter's reason
        reason = f"{type(fault).__name__}: {fault}"
        _failed(letter, _clean(reason)[:TEXT_CHARACTERS_MAX])
        return reason
    return None


def discard(letter: DeadLetter, handler: Handler, note: str) -> Obstacle | None:
    """Returns None, or why it failed. A handler that `HandlesDiscards` decides what a
    discard means (inventory: the request is INVALID)."""
    assert handler.group == letter.group
    with audited("letters discard", _name(letter), id=letter.id, because=note) as act:
        why = _discard(letter, handler, note)
        act.result = act.result if why is None else why
    return why


def _discard(letter: DeadLetter, handler: Handler, note: str) -> Obstacle | None:
    try:
        with transaction.atomic():
            if not _close(letter, [State.OPEN, State.QUARANTINED], State.DISCARDED, note):
                return _already(DeadLetter.objects.get(id=letter.id))
            if isinstance(handler, HandlesDiscards):
                _notify_handler(letter, handler)
    except Exception as fault:  # the rollback has left the letter unchanged
        return _clean(f"{type(fault).__name__}: {fault}")[:TEXT_CHARACTERS_MAX]
    return None


def _already(letter: DeadLetter) -> Obstacle:
    return format_lazy(_("is {state}"), state=_(str(letter.state)))


def _notify_handler(letter: DeadLetter, handler: HandlesDiscards) -> None:
    try:
        batch = _batch(letter)
        with _trace_context(batch), transaction.atomic():
            handler.on_discard(batch)
    except (PermanentFailure, DataError):
        pass  # the record is unreadable or cannot be stored, so there is nothing to release


def _name(letter: DeadLetter) -> str:
    return f"{letter.group} {letter.topic}-{letter.partition}@{letter.offset}"


def _close(letter: DeadLetter, states: Sequence[str], to: str, note: str = "") -> bool:
    chosen = DeadLetter.objects.filter(id=letter.id, state__in=states)
    return chosen.update(state=to, note=note, closed_at=timezone.now()) == 1


def _failed(letter: DeadLetter, reason: str) -> None:
    with transaction.atomic():
        now = DeadLetter.objects.select_for_update().get(id=letter.id)
        if now.state in (State.OPEN, State.QUARANTINED):
            now.replays += 1
            now.reason = reason
            now.state = State.QUARANTINED if now.replays >= REPLAYS_MAX else now.state
            now.save(update_fields=["replays", "reason", "state"])


def _batch(letter: DeadLetter) -> Batch:
    record = decode_record(_record(letter))
    return Batch(letter.cluster_id, letter.topic_id, letter.topic, letter.partition, [record])


def _trace_context(batch: Batch) -> AbstractContextManager[None]:
    return traces.entered((each.envelope.event_id, each.headers.get(traces.HEADER)) for each in batch.records)


def _record(letter: DeadLetter) -> Any:
    """In the shape of a record of kafka-python."""
    return SimpleNamespace(
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        timestamp=letter.timestamp_ms,
        key=None if letter.key is None else bytes(letter.key),
        value=None if letter.value is None else bytes(letter.value),
        headers=[(name, None if value is None else bytes.fromhex(value)) for name, value in letter.headers],
    )


def _shorten(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """The first headers, each truncated: they come from outside and may fill the whole record."""
    return {
        _clean(name)[:HEADER_CHARACTERS_MAX]: _clean(
            (value or b"")[: 4 * HEADER_CHARACTERS_MAX].decode(errors="replace")
        )[:HEADER_CHARACTERS_MAX]
        for name, value in headers[:HEADERS_MAX]
    }


def _clean(text: str) -> str:
    """Postgres stores no NUL in text."""
    return text.replace("\0", "\\0")
