"""Dead letters: rows with everything there was, told of in `<topic>.dead`; open until replayed or discarded.

A replay hands the record to its group's handler again, with its first place and in one transaction with the change of
the letter's state: whoever replays twice has one effect, and nothing new enters the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django.db import DataError, transaction
from django.utils import timezone

from seckill.audit.trail import acting
from seckill.streams import offsets, outbox, traces
from seckill.streams.models import DeadLetter
from seckill.streams.records import Batch, Discards, Handler, Permanent, received

WRITER = "letters"
MOST_REPLAYS = 3
MOST_TEXT = 2000
LETTER_BYTES_MAX = 512 * 1024
"""Of the copy in the dead letters' topic, which has headers besides; the row keeps all of the record."""
HEADERS_MAX, HEADER_CHARACTERS_MAX = 32, 1000

State = DeadLetter.State


def bury(claim: offsets.Claim, record: Any, *, reason: str, attempts: int) -> None:
    """Inside the transaction that advances the offsets past the record. Twice is once."""
    reason = _clean(reason)[:MOST_TEXT]
    letter, made = DeadLetter.objects.get_or_create(
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
    if made:
        told = {
            "dead.group": claim.group,
            "dead.place": f"{record.topic}-{record.partition}@{record.offset}",
            "dead.reason": reason,
            "dead.attempts": str(attempts),
        }
        key = _clean((record.key or b"").decode(errors="replace"))[:200]
        value = record.value or b""
        if len(value) > LETTER_BYTES_MAX:
            told["dead.truncated"] = f"{len(value)} bytes; all of them: letter {letter.id}"
        row = outbox.Row(f"{record.topic}.dead", key, uuid4(), value[:LETTER_BYTES_MAX], _short(record.headers) | told)
        outbox.insert(WRITER, [row])


def listed(*, group: str | None = None, state: str | None = None) -> list[DeadLetter]:
    chosen = DeadLetter.objects.order_by("id")
    if group is not None:
        chosen = chosen.filter(group=group)
    if state is not None:
        chosen = chosen.filter(state=state)
    return list(chosen)


def try_out(letter: DeadLetter) -> str | None:
    """What would stop a replay that is only thought of: state and form; None if nothing does. Changes nothing."""
    if letter.state not in (State.OPEN, State.QUARANTINED):
        return f"is {letter.state}"
    try:
        received(_record(letter))
    except Permanent as bad:
        return str(bad)
    return None


def replay(letter: DeadLetter, handler: Handler, *, quarantined: bool = False) -> str | None:
    """Once; None, or why it failed. After `MOST_REPLAYS` failures only with `quarantined`."""
    assert handler.group == letter.group
    with acting("letters replay", _name(letter), id=letter.id) as act:
        why = _replay(letter, handler, quarantined=quarantined)
        act.result = act.result if why is None else why
    return why


def _replay(letter: DeadLetter, handler: Handler, *, quarantined: bool) -> str | None:
    states = [State.OPEN, *([State.QUARANTINED] if quarantined else [])]
    try:
        with transaction.atomic():
            if not _close(letter, states, State.REPLAYED):
                return f"is {DeadLetter.objects.get(id=letter.id).state}"
            batch = _batch(letter)
            with _traced(batch):
                handler.handle(batch)
    except Exception as fault:  # whatever it is, it is the letter's reason now
        reason = f"{type(fault).__name__}: {fault}"
        _failed(letter, _clean(reason)[:MOST_TEXT])
        return reason
    return None


def discard(letter: DeadLetter, handler: Handler, note: str) -> str | None:
    """Once; None, or why not. The handler, if it wants to know, says what it means (a request is INVALID)."""
    assert handler.group == letter.group
    with acting("letters discard", _name(letter), id=letter.id, because=note) as act:
        why = _discard(letter, handler, note)
        act.result = act.result if why is None else why
    return why


def _discard(letter: DeadLetter, handler: Handler, note: str) -> str | None:
    try:
        with transaction.atomic():
            if not _close(letter, [State.OPEN, State.QUARANTINED], State.DISCARDED, note):
                return f"is {DeadLetter.objects.get(id=letter.id).state}"
            if isinstance(handler, Discards):
                _give_up(letter, handler)
    except Exception as fault:  # whatever it is, the letter stays as it was
        return _clean(f"{type(fault).__name__}: {fault}")[:MOST_TEXT]
    return None


def _give_up(letter: DeadLetter, handler: Discards) -> None:
    try:
        batch = _batch(letter)
        with _traced(batch), transaction.atomic():
            handler.discard(batch)
    except (Permanent, DataError):
        pass  # nobody can say whose it was, or nothing of it can be kept


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
            now.state = State.QUARANTINED if now.replays >= MOST_REPLAYS else now.state
            now.save(update_fields=["replays", "reason", "state"])


def _batch(letter: DeadLetter) -> Batch:
    record = received(_record(letter))
    return Batch(letter.cluster_id, letter.topic_id, letter.topic, letter.partition, [record])


def _traced(batch: Batch) -> AbstractContextManager[None]:
    return traces.entered((each.envelope.event_id, each.headers.get(traces.HEADER)) for each in batch.records)


def _record(letter: DeadLetter) -> Any:
    """As the client had given it to us."""
    return SimpleNamespace(
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        timestamp=letter.timestamp_ms,
        key=None if letter.key is None else bytes(letter.key),
        value=None if letter.value is None else bytes(letter.value),
        headers=[(name, None if value is None else bytes.fromhex(value)) for name, value in letter.headers],
    )


def _short(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """The first ones, each cut: they came from outside, and a record may consist of them."""
    return {
        _clean(name)[:HEADER_CHARACTERS_MAX]: _clean(
            (value or b"")[: 4 * HEADER_CHARACTERS_MAX].decode(errors="replace")
        )[:HEADER_CHARACTERS_MAX]
        for name, value in headers[:HEADERS_MAX]
    }


def _clean(text: str) -> str:
    """Postgres keeps no NUL in a text."""
    return text.replace("\0", "\\0")
