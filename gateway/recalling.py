"""Admission with the projection behind it: what Redis may have forgotten, the table of outcomes is asked for.

A known key gets its own answer before any other refusal. Redis knows most of them; after FLUSHALL, after a restart with
old data, and for requests older than it remembers, a round asks the projection once for all its requests that Redis did
not know and might have known. While a request that was forgotten may still be in the queue, a final refusal would be a
guess, so the answer is "send it again".
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection
from redis.exceptions import RedisError

from gateway import admission
from gateway.admission import Admitted, Ask, Memory, Verdict
from gateway.places import Place, place
from gateway.watching import watch
from seckill.topics import PURCHASE_REQUESTS

log = logging.getLogger(__name__)

FINAL = (Verdict.CLOSED, Verdict.SOLD_OUT, Verdict.NO_SUCH_SALE)
"""A client does not come back after these."""
SOMEWHERE = Place(PURCHASE_REQUESTS.name, 0, 0)
"""For rows that were projected before places were kept: the request is decided, so its place tells nothing any more."""

_FIND = """
SELECT request_id, user_id, sku, quantity, place FROM gateway_outcome WHERE request_id = ANY(%s::uuid[])
"""


class Recalled(NamedTuple):
    user_id: str
    sku: str | None
    quantity: int | None
    place: str | None

    @property
    def fingerprint(self) -> str | None:
        return None if self.sku is None or self.quantity is None else fingerprint(self.sku, self.quantity)


@lru_cache(maxsize=1024)
def fingerprint(sku: str, quantity: int) -> str:
    """Of the body of a request."""
    return hashlib.sha256(f"{sku}:{quantity}".encode()).hexdigest()[:16]


def admit(asks: Sequence[Ask], placed: Sequence[tuple[UUID, Place]] = ()) -> list[Admitted]:
    """As `admission.admit`, and what Redis has forgotten is recalled."""
    answers = admission.admit(asks, placed)
    doubtful = [ask.request_id for ask, said in zip(asks, answers, strict=True) if _may_be_forgotten(said)]
    if not doubtful:
        return answers
    known = _find(doubtful)
    settled = [
        _settled(ask, said, known) if _may_be_forgotten(said) else said for ask, said in zip(asks, answers, strict=True)
    ]
    _remember(asks, settled, known or {})
    return settled


def _may_be_forgotten(said: Admitted) -> bool:
    if said.verdict is Verdict.ADMITTED:
        return not said.is_first
    return said.memory is not Memory.WHOLE and said.verdict not in (Verdict.OTHER_BODY, Verdict.NOT_OPEN_YET)


def _find(requests: Sequence[UUID]) -> Mapping[UUID, Recalled] | None:
    """None: the table cannot be asked."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(_FIND, [list(requests)])
            return {row[0]: Recalled(*row[1:]) for row in cursor.fetchall()}
    except DatabaseError as fault:
        log.warning("forgotten requests cannot be recalled", extra={"reason": str(fault)})
        close_old_connections()
        return None


def _settled(ask: Ask, said: Admitted, known: Mapping[UUID, Recalled] | None) -> Admitted:
    found = None if known is None else known.get(ask.request_id)
    if found is not None:
        if ask.fingerprint and found.fingerprint not in (None, ask.fingerprint):
            return Admitted(Verdict.OTHER_BODY, said.now_ms)
        where = SOMEWHERE if found.place is None else place(found.place)
        return Admitted(Verdict.KNOWN, said.now_ms, said.now_ms, said.now_ms, where)
    if said.verdict not in FINAL:
        return said
    is_unknown = known is None or (said.memory is Memory.LOST_JUST_NOW and not _is_drained())
    return said._replace(verdict=Verdict.UNKNOWN) if is_unknown else said


def _is_drained() -> bool:
    """Is every request decided, as far as this gateway sees?"""
    undecided = watch().undecided()
    return bool(undecided) and not any(undecided.values())


def _remember(asks: Sequence[Ask], settled: Sequence[Admitted], known: Mapping[UUID, Recalled]) -> None:
    """So that the next call is answered by Redis; and one that was just admitted with another body is undone there."""
    try:
        for ask, said in zip(asks, settled, strict=True):
            found = known.get(ask.request_id)
            if found is not None and found.fingerprint is not None and found.place is not None:
                admission.remember(ask.request_id, found.fingerprint, found.user_id, said.now_ms, found.place)
    except RedisError as fault:
        log.warning("recalled requests are not remembered", extra={"reason": str(fault)})
