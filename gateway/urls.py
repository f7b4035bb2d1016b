"""Addresses of the gateway, under /api/v1."""

from django.urls import path

from gateway import views
from seckill.web import url_converters  # noqa: F401  # registers row_id

urlpatterns = [
    path("sales/<row_id:sale_id>/purchases", views.purchases),
    path("sessions", views.sessions),
    path("sales", views.all_sales),
    path("sales/<row_id:sale_id>", views.one_sale),
    path("sales/<row_id:sale_id>/ticket", views.ticket),
    path("purchases/<uuid:request_id>", views.purchase),
]
