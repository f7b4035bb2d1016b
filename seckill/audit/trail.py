"""Every operator's verb is spoken inside `acting`: its row and its effects are one transaction.

    with acting("sale adjust", f"sale {sale_id} {sku}", units=units):
        …

What is refused (an exception, or another `result`) leaves its row, too: an attempt is worth knowing of.
"""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from seckill.audit.models import Entry

log = logging.getLogger(__name__)

DONE = "done"
MOST_RESULT = 2000


@dataclass(slots=True)
class Act:
    """What the block may change while it runs."""

    result: str = DONE


_speaker: ContextVar[str | None] = ContextVar("speaker", default=None)


@contextmanager
def spoken_by(name: str) -> Iterator[None]:
    """Inside, it is he who acts: somebody who has signed in."""
    token = _speaker.set(name)
    try:
        yield
    finally:
        _speaker.reset(token)


@contextmanager
def acting(verb: str, target: str, *, actor: str | None = None, **arguments: Any) -> Iterator[Act]:
    """One transaction around the verb and its row. `arguments` are what JSON can hold."""
    act = Act()
    try:
        with transaction.atomic():
            yield act
            _write(verb, target, actor, arguments, act.result)
    except Exception as fault:
        if not connection.in_atomic_block:  # else the row would go the way of the caller's transaction
            _note_refusal(verb, target, actor, arguments, fault)
        raise


def listed(*, verb: str | None = None, target: str | None = None, most: int | None = None) -> list[Entry]:
    """The newest `most`, oldest first. A verb matches by its beginning: "sale" finds "sale close"."""
    chosen = Entry.objects.order_by("-id")
    if verb is not None:
        chosen = chosen.filter(verb__startswith=verb)
    if target is not None:
        chosen = chosen.filter(target__contains=target)
    return list(chosen[:most])[::-1]


def operator() -> str:
    """Who speaks, unless the caller knows better: who has signed in, the environment's operator, or the user of this
    machine."""
    if (speaker := _speaker.get()) is not None:
        return speaker
    if settings.ENVIRONMENT.operator:
        return str(settings.ENVIRONMENT.operator)
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return f"uid {os.getuid()}"


def _note_refusal(verb: str, target: str, actor: str | None, arguments: dict[str, Any], fault: Exception) -> None:
    try:
        _write(verb, target, actor, arguments, f"{type(fault).__name__}: {fault}")
    except DatabaseError as away:  # perhaps the very reason of the refusal
        log.warning("not audited", extra={"verb": verb, "target": target, "reason": str(away)})


def _write(verb: str, target: str, actor: str | None, arguments: dict[str, Any], result: str) -> None:
    Entry.objects.create(
        actor=(actor or operator())[:200],
        verb=verb,
        target=target[:200],
        arguments=arguments,
        result=result.replace("\0", "\\0")[:MOST_RESULT],
    )
    log.info("audited", extra={"verb": verb, "target": target, "result": result[:200]})
