"""Refusals as pages word them, by the kind of the problem (gateway/api/problems.py has the words for programs)."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

_TRY_LATER = _("Please try again in a moment.")
_NOT_QUEUED = _("Your request is not in the queue. Please try again in a moment.")
_NOT_CHARGED = _("You have not been charged.")

TEXTS: dict[str, tuple[str | Promise, str | Promise]] = {
    # what happened, and what to do
    "bad-user": (_("This name cannot be used."), _("Use 1 to 100 letters, digits or . _ @ + -")),
    "bad-quantity": (_("This quantity is not possible."), _("Choose one of the quantities in the list.")),
    "no-such-sale": (_("This sale does not exist."), _("The home page lists all sales.")),
    "no-such-article": (_("This sale has no such article."), _("Choose one of the articles on its page.")),
    "no-such-purchase": (
        _("We could not find this purchase."),
        _("You may have signed in with a different name, or it was too long ago."),
    ),
    "bad-page": (_("This page of orders does not exist."), _("Start again with your newest orders.")),
    "no-such-order": (_("We could not find this order."), _("You may have signed in with a different name.")),
    "no-such-address": (_("Page not found"), _("The address is wrong, or the page no longer exists.")),
    "not-permitted": (_("You are not allowed to do this."), _("Ask an operator who has this permission.")),
    "form-not-ours": (
        _("We could not accept this form."),
        _("It has expired or was not sent from our pages. Reload the page and try again."),
    ),
    "sales-unavailable": (_("The sales are temporarily unavailable."), _TRY_LATER),
    "admission-unavailable": (
        _("We cannot accept requests at the moment."),
        _("Your request is not in the queue. Try again in a moment; you will not buy twice."),
    ),
    "not-open-yet": (_("The sale has not started yet."), _("Wait until the countdown ends.")),
    "sale-closed": (_("The sale has ended."), _NOT_CHARGED),
    "sale-paused": (_("The sale is paused."), _NOT_QUEUED),
    "ticket-missing": (_("The page was not ready."), _("It is ready now. Press the button again.")),
    "ticket-invalid": (_("This page was loaded for another buyer."), _("It is yours now. Press the button again.")),
    "ticket-expired": (_("This page was too old."), _("It has been refreshed. Press the button again.")),
    "ticket-spent": (
        _("This page was already used for another request."),
        _("It has been refreshed. Press the button again."),
    ),
    "too-many-requests": (
        _("Too many requests"),
        _("You or others on your network sent too many requests. Wait a second and press the button again."),
    ),
    "too-many-tries": (_("You have reached the limit of requests for this sale."), _NOT_CHARGED),
    "too-many-unpaid": (
        _("Too many unpaid units are reserved from your network."),
        _("Pay for your reserved units, or try again in a moment."),
    ),
    "sold-out": (_("Sold out"), _("The last unit has been sold. You have not been charged.")),
    "key-reused": (_("You already sent this request with a different quantity."), _("Its status is shown below.")),
    "queue-too-long": (_("The queue is too long to process your request in time."), _NOT_QUEUED),
    "queue-unavailable": (_("The queue is temporarily unavailable."), _NOT_QUEUED),
    "queue-moving": (_("The queue is being reorganized."), _("This takes a few seconds. Press the button again.")),
    "queue-unknown": (
        _("We do not know whether your request reached the queue."),
        _("Press the button again to find out. You will not buy twice."),
    ),
    "nothing-to-pay": (_("There is nothing to pay."), _("The order is already paid or has ended.")),
    "not-cancellable": (
        _("This order can no longer be cancelled."),
        _("The order is already paid or has ended."),
    ),
    "provider-unavailable": (
        _("The payment provider is not answering."),
        _("Try again in a moment; you will not pay twice."),
    ),
    "status-unknown": (_("We do not know yet whether your request was decided."), _TRY_LATER),
    "database-unavailable": (_("Something on our side is not answering."), _TRY_LATER),
    "wrong-method": (_("This address does not support that."), _("Go back and use the buttons of the page.")),
    "internal": (_("Something went wrong on our side."), _("The error has been logged. Please try again later.")),
}


def describe_problem(kind: str) -> dict[str, str | Promise]:
    what, todo = TEXTS.get(kind, TEXTS["internal"])
    return {"what": what, "todo": todo}
