"""What the pages call the present state of a sale. static/shop/sale.js applies the same rule between two loads."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from gateway.sale_json import Availability, availability
from inventory.events import SaleView


class SalePhase(TextChoices):
    UPCOMING = "upcoming", _("not started yet")
    OPEN = "open", _("open")
    ALL_HELD = "all_held", _("all units reserved")
    SOLD_OUT = "sold_out", _("sold out")
    PAUSED = "paused", _("paused")
    CLOSED = "closed", _("ended")


CAN_BUY = (SalePhase.OPEN, SalePhase.ALL_HELD)
"""While all units are reserved, some may still come back, so a request is accepted."""

OVER = (SalePhase.SOLD_OUT, SalePhase.CLOSED)

_PHASES = {
    Availability.AVAILABLE: SalePhase.OPEN,
    Availability.ALL_HELD: SalePhase.ALL_HELD,
    Availability.SOLD_OUT: SalePhase.SOLD_OUT,
}


_BEST_FIRST = (
    SalePhase.UPCOMING, SalePhase.PAUSED, SalePhase.CLOSED, SalePhase.OPEN, SalePhase.ALL_HELD, SalePhase.SOLD_OUT,
)  # fmt: skip


def sale_phase(view: SaleView, now_ms: int) -> SalePhase:
    """The best of its articles: a sale is sold out when all of them are."""
    return min((article_phase(each, now_ms) for each in view.articles()), key=_BEST_FIRST.index)


def article_phase(view: SaleView, now_ms: int) -> SalePhase:
    """Of the first article. `SaleView.articles` makes a view for each."""
    if now_ms >= view.closes_at_ms or view.state not in ("open", "paused"):
        return SalePhase.CLOSED
    if now_ms < view.opens_at_ms:
        return SalePhase.UPCOMING
    if view.state == "paused":
        return SalePhase.PAUSED
    return _PHASES[availability(view)]
