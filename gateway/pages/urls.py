"""Addresses of the shop."""

from django.urls import path

from gateway.pages import purchase, shop

urlpatterns = [
    path("", shop.shop, name="shop"),
    path("shop/sign-in", shop.sign_in, name="sign-in"),
    path("shop/sign-out", shop.sign_out, name="sign-out"),
    path("shop/<int:sale_id>", shop.sale, name="sale"),
    path("shop/<int:sale_id>/buy", shop.buy, name="buy"),
    path("shop/<int:sale_id>/ticket", shop.ticket, name="ticket"),
    path("p/<uuid:request_id>", purchase.purchase, name="purchase"),
    path("p/<uuid:request_id>/now", purchase.purchase_now, name="purchase-now"),
]
