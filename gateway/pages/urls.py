"""Addresses of the shop."""

from django.urls import path

from gateway.pages import purchase_page, shop
from seckill.web import url_converters  # noqa: F401  # registers row_id

urlpatterns = [
    path("", shop.shop, name="shop"),
    path("shop/sign-in", shop.sign_in, name="sign-in"),
    path("shop/sign-out", shop.sign_out, name="sign-out"),
    path("shop/<row_id:sale_id>", shop.sale, name="sale"),
    path("shop/<row_id:sale_id>/buy", shop.buy, name="buy"),
    path("shop/<row_id:sale_id>/ticket", shop.ticket, name="ticket"),
    path("p/<uuid:request_id>", purchase_page.purchase, name="purchase"),
    path("p/<uuid:request_id>/now", purchase_page.purchase_fragment, name="purchase-now"),
]
