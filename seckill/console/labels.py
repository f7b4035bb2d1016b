"""Labels of the console, in the operator's language: hops, live invariants, operations, and states of other rooms."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from seckill.messaging.models import DeadLetter

Label = str | Promise


class Hop(NamedTuple):
    """A consumer group on the way of a purchase. `latency` names its measurement in queries.py, if there is one."""

    group: str
    title: Label
    latency: str = ""


HOPS = (
    Hop("inventory", _("decide"), "inventory"),
    Hop("orders", _("create order"), "orders"),
    Hop("inventory.settlement", _("settle stock"), "settlement"),
    Hop("gateway.outcomes", _("show to buyer")),
    Hop("notify.sms", _("send SMS"), "notify"),
    Hop("notify.email", _("send e-mail"), "notify"),
    Hop("notify.push", _("send push message"), "notify"),
)

CHAIN_HOPS = 2
"""The first hops follow one another; the others all read the events of orders."""

SERIES: dict[str, Label] = {
    "offered": _("offered"),
    "acknowledged": _("acknowledged"),
    "decided": _("decided"),
    "backlog": _("backlog"),
}
"""The lines of the charts (seckill/report/traffic.py defines them)."""

OPERATIONS: dict[str, Label] = {
    "sale create": _("sale created"),
    "sale open": _("sale opened"),
    "sale pause": _("sale paused"),
    "sale close": _("sale closed"),
    "sale adjust": _("stock adjusted"),
    "refund": _("order refunded"),
    "reconcile close": _("discrepancy closed"),
    "messages again": _("delivery retried"),
    "switch on": _("consumer switched on"),
    "switch off": _("consumer switched off"),
    "offsets resume": _("consumer resumed"),
    "letters replay": _("dead letter replayed"),
    "letters discard": _("dead letter discarded"),
    "stack start": _("process started"),
    "stack stop": _("process stopped"),
    "stack scale": _("service scaled"),
    "stack kill": _("process killed"),
    "fault redis-flushall": _("Redis emptied"),
    "report": _("report requested"),
    "rush": _("rush started"),
}
"""What the chart and the audit page call an entry of the audit trail. Others are shown by their verb."""

LETTER_STATES: dict[str, Label] = {
    DeadLetter.State.OPEN: _("open"),
    DeadLetter.State.REPLAYED: _("replayed"),
    DeadLetter.State.DISCARDED: _("discarded"),
    DeadLetter.State.QUARANTINED: _("quarantined"),
}

VERDICTS: dict[str, Label] = {
    "PASS": _("passed"),
    "FAIL": _("failed"),
    "UNKNOWN": _("unknown"),
    "NOT RUN": _("not run"),
    "QUEUED": _("queued"),
    "RUNNING": _("running…"),
    "FAILED": _("not made"),
    "LOST": _("lost"),
}

PROCESS_STATES: dict[str, Label] = {
    "up": _("up"),
    "waiting": _("waiting"),
    "starting": _("starting"),
    "died": _("crashed"),
    "down": _("stopped"),
    "no answer": _("no answer"),
}

TRACE_PLACES: dict[str, Label] = {
    "gateway": _("gateway"),
    "dead letters": _("dead letters"),
    "decision": _("decision"),
    "ledger": _("ledger"),
    "order": _("order"),
    "payment": _("payment"),
    "delivery": _("delivery"),
    "shown": _("shown"),
}
"""Where a step of the trace page happened. Positions of records stay as they are."""

INVARIANTS = (
    gettext_noop("units oversold"),
    gettext_noop("units that the ledger does not explain"),
    gettext_noop("reservations without an order"),
    gettext_noop("orders without a reservation"),
    gettext_noop("units that gate and ledger count differently"),
    gettext_noop("requests skipped without a decision"),
    gettext_noop("requests decided twice"),
    gettext_noop("requests not decided yet"),
    gettext_noop("users with two active purchases"),
    gettext_noop("orders whose money does not match their state"),
    gettext_noop("units returned twice"),
    gettext_noop("unpaid orders past their deadline"),
    gettext_noop("messages not delivered yet"),
    gettext_noop("orders and payments at a wrong price"),
    gettext_noop("buyers with a wrong right to buy again"),
    gettext_noop("purchases assigned to another buyer"),
    gettext_noop("refusals with a false reason"),
    gettext_noop("messages to another buyer"),
    gettext_noop("orders whose state contradicts their history"),
    gettext_noop("events not published yet"),
)
"""The titles of seckill/report/live/residuals.py."""


GROUPS: dict[str, Label] = {
    "stock": _("Stock"),
    "messages": _("Messages"),
    "money": _("Money"),
    "buyers": _("Buyers"),
}
"""The cards of the verdict."""

INVARIANT_GROUPS = {
    **dict.fromkeys(("I1", "I2", "I4", "I15"), "stock"),
    **dict.fromkeys(("I3", "I9", "I21", "I23"), "messages"),
    **dict.fromkeys(("I14", "I20", "I25", "I33"), "money"),
    **dict.fromkeys(("I12", "I26", "I27", "I28", "I30"), "buyers"),
}
"""The card on which each live invariant is counted."""


def operation_label(verb: str) -> str:
    return str(OPERATIONS.get(verb, verb))


def state_label(labels: dict[str, Label], state: str) -> str:
    """A state that has no label is shown as it is."""
    return str(labels.get(state, state))
