"""Dead letters in the admin: read them, replay them, discard them."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from seckill.audit.operator_admin import OperatorAction, OperatorAdmin
from seckill.messaging import dead_letters
from seckill.messaging.models import DeadLetter
from seckill.messaging.service_registry import create_handler


class DeadLetterRefused(Exception):
    """The message says why."""


def _replay(letter: DeadLetter, reason: str) -> str:
    obstacle = dead_letters.replay(letter, create_handler(letter.group))
    if obstacle is not None:
        raise DeadLetterRefused(obstacle)
    return _("Dead letter %(id)d was replayed.") % {"id": letter.id}


def _discard(letter: DeadLetter, reason: str) -> str:
    if not reason:
        raise DeadLetterRefused(_("a reason is required"))
    obstacle = dead_letters.discard(letter, create_handler(letter.group), reason)
    if obstacle is not None:
        raise DeadLetterRefused(obstacle)
    return _("Dead letter %(id)d was discarded.") % {"id": letter.id}


@admin.register(DeadLetter)
class DeadLetterAdmin(OperatorAdmin):
    list_display = ("id", "group", "topic", "partition", "offset", "state", "replays", "reason", "died_at")
    list_filter = ("state", "group")
    exclude = ("key", "value")
    ordering = ("-id",)
    operator_actions = (
        OperatorAction(
            "replay", "letter replay", "operate", gettext_lazy("Replay"), _replay, (DeadLetterRefused, KeyError)
        ),
        OperatorAction(
            "discard", "letter discard", "operate", gettext_lazy("Discard"), _discard, (DeadLetterRefused, KeyError)
        ),
    )
