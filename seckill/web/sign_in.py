"""How a buyer signs in. The demo accepts any name without a password, so it exists in development only.

To use your own sign-in, name a Django view in SECKILL_SIGN_IN, for example `shop.accounts.sign_in`. It is called at
`/shop/sign-in`, identifies the buyer in any way it likes (a form, or the two steps of OpenID Connect), and ends with

    response = HttpResponseRedirect(safe_redirect_target(request, request.GET.get("next", "/")))
    set_buyer_cookie(response, user_id)      # both from seckill.web.pages

A program gets its bearer token from `seckill.web.tokens.issue_token(user_id)`, at an address of your shop. A user id
has 1 to 100 letters, digits or . _ @ + - and must be the same at every sign-in, because "one purchase per user" depends
on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from seckill.web.problems import Problem

View = TypeVar("View", bound=Callable[..., HttpResponse])


def custom_sign_in_view() -> Callable[[HttpRequest], HttpResponse] | None:
    """The view named by SECKILL_SIGN_IN. Raises `ImportError` if it cannot be imported."""
    path = settings.ENVIRONMENT.sign_in
    return cast("Callable[[HttpRequest], HttpResponse]", import_string(path)) if path else None


def demo_only(view: View) -> View:
    """Answer 404 outside development, for every method."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not settings.ENVIRONMENT.development:
            raise Problem(404, "no-such-address", "This address does not exist.")
        return view(request, *args, **kwargs)

    return cast(View, wrapped)
