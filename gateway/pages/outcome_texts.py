"""What the page of a purchase says about each state, and which steps of the way it shows."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from gateway.pages.sale_phase import SalePhase
from seckill.web.purchase_states import REFUSED, RETURNED, PurchaseState

Text = str | Promise


class OutcomeText(NamedTuple):
    """`tone` is a class of the style sheet: good, wait or empty."""

    headline: Text
    detail: Text
    tone: str = ""


class Step(NamedTuple):
    """`status` is a class of the style sheet: done, now or empty."""

    label: Text
    status: str


_REFUSED = _("Request refused")

_TEXTS: dict[PurchaseState, OutcomeText] = {
    PurchaseState.RESERVED: OutcomeText(_("Reserved for you"), _("We are creating your order."), "good"),
    PurchaseState.PAID: OutcomeText(_("Paid"), _("Thank you. We will send you a confirmation."), "good"),
    PurchaseState.REFUNDED: OutcomeText(_("Refunded"), _("You will get your money back.")),
    PurchaseState.DUPLICATE: OutcomeText(
        _REFUSED, _("You already have an active purchase in this sale. Only one is allowed per buyer.")
    ),
    PurchaseState.LIMIT_REACHED: OutcomeText(
        _REFUSED, _("You asked for more units than one buyer may have. You have not been charged.")
    ),
    PurchaseState.CLOSED: OutcomeText(
        _REFUSED, _("The sale ended before your request was processed. You have not been charged.")
    ),
    PurchaseState.TOO_LATE: OutcomeText(
        _REFUSED, _("The queue was too long to process your request in time. You have not been charged.")
    ),
    PurchaseState.INVALID: OutcomeText(_REFUSED, _("The request was invalid. You have not been charged.")),
}
_RETURNED_HEADLINES: dict[PurchaseState, Text] = {
    PurchaseState.EXPIRED: _("Not paid in time"),
    PurchaseState.CANCELLED: _("Cancelled"),
    PurchaseState.NOT_PLACED: _("We could not create your order"),
}
_SOLD_OUT_TEXTS: dict[SalePhase | None, OutcomeText] = {
    SalePhase.ALL_HELD: OutcomeText(
        _("All units are reserved"),
        _("No unit was left when your turn came. Not all of them are paid for, so some may become available again."),
        "wait",
    ),
    SalePhase.OPEN: OutcomeText(
        _("No unit was left"),
        _("No unit was left when your turn came. Units have been returned since then, so you can try again."),
        "wait",
    ),
}
_SOLD_OUT = OutcomeText(_("Sold out"), _("No unit was left when your turn came. You have not been charged."))


def describe_outcome(state: PurchaseState, *, may_buy_again: bool, phase: SalePhase | None) -> OutcomeText | None:
    """None for the two states whose page counts down: QUEUED and AWAITING_PAYMENT have a template of their own."""
    if state is PurchaseState.SOLD_OUT:
        return _SOLD_OUT_TEXTS.get(phase, _SOLD_OUT)
    if state in RETURNED:
        detail = (
            _("The unit is back on sale. You can buy again.")
            if may_buy_again
            else _("The unit is being returned to the sale. After that you can buy again.")
        )
        return OutcomeText(_RETURNED_HEADLINES[state], detail)
    return _TEXTS.get(state)


def purchase_steps(state: PurchaseState) -> list[Step]:
    """How far the purchase has come."""
    if state is PurchaseState.QUEUED:
        decided = Step(_("in the queue"), "now")
    else:
        decided = Step(_("processed"), "done")
    steps = [Step(_("requested"), "done"), decided]
    if state in REFUSED:
        return steps
    order_status = {PurchaseState.QUEUED: "", PurchaseState.RESERVED: "now"}.get(state, "done")
    steps.append(Step(_("order created"), order_status))
    if state in RETURNED:
        steps.append(Step(_("not paid"), ""))
    elif state is PurchaseState.AWAITING_PAYMENT:
        steps.append(Step(_("awaiting payment"), "now"))
    else:
        steps.append(Step(_("paid"), "done" if state in (PurchaseState.PAID, PurchaseState.REFUNDED) else ""))
    return steps
