"""URLs of the orders API, under /api/v1."""

from django.urls import path

from orders import views

urlpatterns = [
    path("orders", views.orders),
    path("orders/<uuid:order_id>", views.order),
    path("orders/<uuid:order_id>/pay", views.pay),
    path("orders/<uuid:order_id>/cancel", views.cancel),
    path("payments/callback", views.callback),
]
