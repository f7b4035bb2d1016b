"""Switching a consumer group off while the sale goes on: its consumers pause, and catch up when it is on again.

Only groups that no buyer waits for can be switched off.
"""

from __future__ import annotations

import logging

from django.db import close_old_connections
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from seckill.audit.trail import audited
from seckill.messaging.batch_worker import TRANSIENT_FAULTS
from seckill.messaging.models import Switch

log = logging.getLogger(__name__)

OPTIONAL_GROUPS = ("notify.sms", "notify.email", "notify.push", "analytics")
CHECK_SECONDS = 1.0
CHECK_SECONDS_WHILE_OFF = 0.1  # the consumer is idle then, and its group should resume together


class GroupNotOptional(Exception):
    """The sale does not work without this group."""


def set_switch(group: str, *, on: bool) -> bool:
    """Returns whether this changed anything."""
    if group not in OPTIONAL_GROUPS:
        text = _("{group} cannot be switched off; only {optional} can")
        raise GroupNotOptional(format_lazy(text, group=group, optional=", ".join(OPTIONAL_GROUPS)))
    with audited("switch on" if on else "switch off", group):
        if on:
            return Switch.objects.filter(group=group).delete()[0] == 1
        return Switch.objects.get_or_create(group=group)[1]


def is_switched_off(group: str) -> bool:
    return Switch.objects.filter(group=group).exists()


class SwitchWatch:
    """A consumer's view of its group's switch. `now` is monotonic seconds."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.is_off = False
        self.checked_at = 0.0

    def has_changed(self, now: float) -> bool:
        """Reads the switch if a check is due. If the database is unavailable, the last known state stays."""
        if now < self.checked_at + (CHECK_SECONDS_WHILE_OFF if self.is_off else CHECK_SECONDS):
            return False
        self.checked_at = now
        try:
            is_off = is_switched_off(self._group)
        except TRANSIENT_FAULTS:
            close_old_connections()
            return False
        if is_off == self.is_off:
            return False
        log.warning("switched", extra={"group": self._group, "to": "off" if is_off else "on"})
        self.is_off = is_off
        return True
