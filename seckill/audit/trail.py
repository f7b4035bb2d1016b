"""Every command of an operator runs inside `audited`: its row and its effects are one transaction.

    with audited("sale adjust", f"sale {sale_id} {sku}", units=units):
        …

A refused command (an exception, or another `result`) leaves a row too, because attempts are worth knowing. The trail is
in English whatever the operator's language is, so it can be searched.
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
from django.utils import translation
from django.utils.functional import Promise

from seckill.audit.models import AuditEntry

log = logging.getLogger(__name__)

DONE = "done"
RESULT_MAX = 2000


@dataclass(slots=True)
class AuditedAction:
    """The block may change `result` while it runs."""

    result: str | Promise = DONE


_actor: ContextVar[str | None] = ContextVar("actor", default=None)


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Inside, this signed-in user is recorded as the actor."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)


@contextmanager
def audited(verb: str, target: str, *, actor: str | None = None, **arguments: Any) -> Iterator[AuditedAction]:
    """One transaction around the command and its row. `arguments` must be JSON values."""
    action = AuditedAction()
    try:
        with transaction.atomic():
            yield action
            _write(verb, target, actor, arguments, action.result)
    except Exception as fault:
        if not connection.in_atomic_block:  # else the caller's rollback would remove the row
            _note_refusal(verb, target, actor, arguments, fault)
        raise


def list_entries(*, verb: str | None = None, target: str | None = None, most: int | None = None) -> list[AuditEntry]:
    """The newest `most` entries, oldest first. A verb matches by its beginning: "sale" finds "sale close"."""
    chosen = AuditEntry.objects.order_by("-id")
    if verb is not None:
        chosen = chosen.filter(verb__startswith=verb)
    if target is not None:
        chosen = chosen.filter(target__contains=target)
    return list(chosen[:most])[::-1]


def current_operator() -> str:
    """The actor if the caller names none: the signed-in user, SECKILL_OPERATOR, or the user of this machine."""
    if (actor := _actor.get()) is not None:
        return actor
    if settings.ENVIRONMENT.operator:
        return str(settings.ENVIRONMENT.operator)
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return f"uid {os.getuid()}"


def _note_refusal(verb: str, target: str, actor: str | None, arguments: dict[str, Any], fault: Exception) -> None:
    try:
        with translation.override(settings.LANGUAGE_CODE):
            _write(verb, target, actor, arguments, f"{type(fault).__name__}: {fault}")
    except DatabaseError as away:  # perhaps the reason for the refusal
        log.warning("cannot write the audit trail", extra={"verb": verb, "target": target, "reason": str(away)})


def _write(verb: str, target: str, actor: str | None, arguments: dict[str, Any], result: str | Promise) -> None:
    with translation.override(settings.LANGUAGE_CODE):
        text = str(result)
    AuditEntry.objects.create(
        actor=(actor or current_operator())[:200],
        verb=verb,
        target=target[:200],
        arguments=arguments,
        result=text.replace("\0", "\\0")[:RESULT_MAX],
    )
    log.info("audited", extra={"verb": verb, "target": target, "result": text[:200]})
