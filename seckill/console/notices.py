"""The result of an operation: one notice in the session, shown once on the next page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from inventory.sale_commands import SaleCommandRejected
from orders.refunds import RefundRejected
from seckill.console.staff import operator_required
from seckill.messaging.group_switches import GroupNotOptional
from seckill.stack.control import StackFault

KEY = "notice"
INTEGER_MAX = 1_000_000


class OperationRefused(Exception):
    """The text says why, in the operator's language."""


REFUSALS = (OperationRefused, SaleCommandRejected, RefundRejected, GroupNotOptional, StackFault)


def set_notice(request: HttpRequest, text: str, *, is_good: bool) -> None:
    request.session[KEY] = {"text": text, "is_good": is_good}


def pop_notice(request: HttpRequest) -> Any:
    return request.session.pop(KEY, None)


def operation(run: Callable[..., str]) -> Callable[..., HttpResponse]:
    """A view for one operation. `run` parses the form, calls one command and returns what the operator is told.

    The answer is always a redirect to the board, which shows the text or the reason for a refusal.
    """

    @require_POST
    @operator_required
    @functools.wraps(run)
    def view(request: HttpRequest, **parameters: Any) -> HttpResponse:
        try:
            set_notice(request, run(request, **parameters), is_good=True)
        except REFUSALS as refusal:
            set_notice(request, str(refusal), is_good=False)
        return HttpResponseRedirect(reverse("console:board"), status=303)

    return view


def parse_integer(text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise OperationRefused(gettext("Enter a whole number.")) from error
    if abs(number) > INTEGER_MAX:
        raise OperationRefused(gettext("This number is too large."))
    return number
