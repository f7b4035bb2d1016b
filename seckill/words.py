"""Refusals in words, for pages: by the kind of the problem (gateway/api/problems.py has them for programs)."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, tuple[str | Promise, str | Promise]] = {
    # what happened, and what to do
    "bad-user": (_("This name cannot be used."), _("Take 1 to 100 letters, digits and . _ @ + -")),
    "bad-quantity": (_("This quantity makes no sense."), _("Choose one of the quantities offered.")),
    "no-such-sale": (_("There is no such sale."), _("The sales there are stand on the first page.")),
    "no-such-purchase": (
        _("You have no such purchase."),
        _("Perhaps you have signed in under another name, or it is too long ago."),
    ),
    "bad-page": (_("There is no such page of orders."), _("Begin with the newest ones.")),
    "no-such-order": (_("You have no such order."), _("Perhaps you have signed in under another name.")),
    "no-such-address": (_("Nothing is here."), _("The address is wrong, or the page is gone.")),
    "not-permitted": (_("You may not do this."), _("Another operator has the permission for it.")),
    "form-not-ours": (
        _("This form was not accepted."),
        _("It did not come from a page of ours, or its page is too old. Load the page again and repeat it."),
    ),
    "sales-unavailable": (_("Nothing is known of the sales just now."), _("Try again in a moment.")),
    "admission-unavailable": (
        _("Nobody can be let in just now."),
        _("You are not in the queue. Try again in a moment: it will be the same request."),
    ),
    "not-open-yet": (_("The sale has not begun."), _("Wait for the countdown to end.")),
    "sale-closed": (_("The sale is over."), _("Nothing was bought.")),
    "sale-paused": (_("The sale is paused."), _("You are not in the queue. Try again in a moment.")),
    "ticket-missing": (_("The page was not ready."), _("It is now: press the button again.")),
    "ticket-invalid": (_("The page was made for somebody else."), _("It is yours now: press the button again.")),
    "ticket-expired": (_("The page was too old."), _("It is fresh now: press the button again.")),
    "ticket-spent": (_("This page has been used for another try."), _("It is fresh now: press the button again.")),
    "too-many-requests": (
        _("That was too fast."),
        _("Too many requests came from you or from your address. Wait a second and press the button again."),
    ),
    "too-many-tries": (_("You have tried too often in this sale."), _("Nothing was bought.")),
    "too-many-unpaid": (
        _("Too many units are held unpaid from your address."),
        _("Pay for those you have, or try again in a moment."),
    ),
    "sold-out": (_("Sold out: the last unit has been sold."), _("Nothing was bought.")),
    "key-reused": (
        _("This try is under way already, with another quantity."),
        _("What became of it stands below."),
    ),
    "queue-too-long": (
        _("The queue is too long: your turn would come too late."),
        _("You are not in it. Try again in a moment."),
    ),
    "queue-unavailable": (_("The queue takes nothing just now."), _("You are not in it. Try again in a moment.")),
    "queue-moving": (_("Your place in the queue is being moved."), _("It takes moments: press the button again.")),
    "queue-unknown": (
        _("It is not known whether your request is in the queue."),
        _("Press the button again to find out: it will be the same request, never a second one."),
    ),
    "nothing-to-pay": (_("There is nothing to pay."), _("The order is paid already, or it has ended.")),
    "not-cancellable": (_("It cannot be cancelled any more."), _("The order is paid already, or it has ended.")),
    "provider-unavailable": (
        _("The payment provider does not answer."),
        _("Nothing has been decided. Try again in a moment: nothing is paid twice."),
    ),
    "database-unavailable": (_("Something of ours does not answer."), _("Try again in a moment.")),
    "wrong-method": (_("This address does not take that."), _("Go back and use the page's buttons.")),
    "internal": (_("Something is broken here."), _("It is our fault, not yours, and it has been written down.")),
}


def of_problem(kind: str) -> dict[str, str | Promise]:
    what, todo = WORDS.get(kind, WORDS["internal"])
    return {"what": what, "todo": todo}
