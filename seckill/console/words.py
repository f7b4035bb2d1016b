"""What the board calls things: hops, outcomes, and the live invariants (whose names come from the report)."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop


class Hop(NamedTuple):
    """A consumer group on the way of a purchase; `took` names the measurement of counting that belongs to it."""

    group: str
    title: str | Promise
    took: str = ""


HOPS = (
    Hop("inventory", _("decided"), "inventory"),
    Hop("orders", _("ordered"), "orders"),
    Hop("gateway.outcomes", _("shown to the buyer")),
    Hop("inventory.settlement", _("settled in stock"), "settlement"),
    Hop("notify.sms", _("told by SMS"), "notify"),
    Hop("notify.email", _("told by e-mail"), "notify"),
    Hop("notify.push", _("told by push"), "notify"),
)

OUTCOMES: dict[str, str | Promise] = {
    "RESERVED": _("held, order under way"),
    "AWAITING_PAYMENT": _("to be paid"),
    "PAID": _("paid"),
    "EXPIRED": _("not paid in time"),
    "CANCELLED": _("cancelled"),
    "REFUNDED": _("refunded"),
    "NOT_PLACED": _("could not be placed"),
    "SOLD_OUT": _("nothing was free"),
    "DUPLICATE": _("another purchase was on"),
    "LIMIT_REACHED": _("too many units"),
    "CLOSED": _("the sale was over"),
    "TOO_LATE": _("its turn came too late"),
    "INVALID": _("made no sense"),
}

INVARIANTS = (
    gettext_noop("units oversold"),
    gettext_noop("units that the ledger does not explain"),
    gettext_noop("reservations without an order"),
    gettext_noop("orders without a reservation"),
    gettext_noop("units the gate counts otherwise"),
    gettext_noop("requests gone past and not accounted for"),
    gettext_noop("requests decided twice"),
    gettext_noop("requests not decided yet"),
    gettext_noop("users with two active purchases"),
    gettext_noop("orders whose money is not as their state says"),
    gettext_noop("units returned twice"),
    gettext_noop("unpaid orders beyond their time and grace"),
    gettext_noop("messages not told yet"),
    gettext_noop("orders and payments at another price"),
    gettext_noop("buyers not told that they may buy again"),
    gettext_noop("purchases of another buyer than decided"),
    gettext_noop("refusals for a false reason"),
    gettext_noop("messages for another buyer"),
    gettext_noop("orders not where their history leaves them"),
    gettext_noop("events not published yet"),
)
