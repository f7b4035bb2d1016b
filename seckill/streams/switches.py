"""Switching a group off while the sale goes on: its consumers hold still, and catch up when it is on again.

Only what nobody waits for may be switched off. A consumer looks at its switch once a second, and more often while it
is off.
"""

from __future__ import annotations

from seckill.audit.trail import acting
from seckill.streams.models import Switch

OPTIONAL = ("notify.sms", "notify.email", "notify.push", "analytics")


class NotOptional(Exception):
    """The sale does not go on without it."""


def switch(group: str, *, on: bool) -> bool:
    """Whether that changed anything."""
    if group not in OPTIONAL:
        raise NotOptional(f"{group} cannot be switched off; only {', '.join(OPTIONAL)} can")
    with acting("switch on" if on else "switch off", group):
        if on:
            return Switch.objects.filter(group=group).delete()[0] == 1
        return Switch.objects.get_or_create(group=group)[1]


def is_off(group: str) -> bool:
    return Switch.objects.filter(group=group).exists()
