"""Who a buyer is. The demo accepts any name without a password, so it exists in development only.

A shop of your own names a Django view in SECKILL_SIGN_IN, for example `shop.accounts.sign_in`. It is called at
`/shop/sign-in`, in whatever way it identifies a buyer (a form, or the two steps of OpenID Connect), and ends with

    response = HttpResponseRedirect(within(request, request.GET.get("next", "/")))
    remember(response, user_id)      # both from seckill.pages: the cookie of a signed-in browser

A program gets its bearer token from `seckill.tokens.issue(user_id)`, at an address of that shop. A user id is 1 to 100
of letters, digits and . _ @ + - and is the same at every sign-in: "one purchase per user" rests on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from seckill.problems import Problem

View = TypeVar("View", bound=Callable[..., HttpResponse])


def own_view() -> Callable[[HttpRequest], HttpResponse] | None:
    """`ImportError` if SECKILL_SIGN_IN names nothing."""
    path = settings.ENVIRONMENT.sign_in
    return cast("Callable[[HttpRequest], HttpResponse]", import_string(path)) if path else None


def demo_only(view: View) -> View:
    """Outside development the address does not exist, whatever the method."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not settings.ENVIRONMENT.development:
            raise Problem(404, "no-such-address", "Nothing is here.")
        return view(request, *args, **kwargs)

    return cast(View, wrapped)
