"""Values: the states of sales and holds, the accounts of the stock ledger, and their names for people.

Each column that holds one of these values has a CHECK constraint made from the same class.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class SaleState(models.TextChoices):
    OPEN = "open", _("open")
    PAUSED = "paused", _("paused")
    CLOSED = "closed", _("closed")


class HoldState(models.TextChoices):
    RESERVED = "reserved", _("reserved")
    SOLD = "sold", _("sold")
    RELEASED = "released", _("released")


ACTIVE_HOLDS = (HoldState.RESERVED, HoldState.SOLD)
"""A buyer with a hold in one of these states has an active purchase."""


class Account(models.TextChoices):
    """Where units are. `supply` is outside the sale: a declaration takes units from it, and an adjustment may return
    some."""

    SUPPLY = "supply", _("supply")
    AVAILABLE = "available", _("available")
    RESERVED = "reserved", _("reserved")
    SOLD = "sold", _("sold")


class EntryKind(models.TextChoices):
    """Why units moved."""

    DECLARE = "declare", _("declared")
    RESERVE = "reserve", _("reserved")
    SELL = "sell", _("sold")
    RELEASE = "release", _("released")
    ADJUST = "adjust", _("adjusted")
    RETURN = "return", _("returned")


class GateAction(models.TextChoices):
    """What a commit still has to do in the gate."""

    RELEASE = "release", _("give units back")
