"""Addresses of the gateway under /api/v1 that Django serves. The others are in gateway/routes.py."""

from django.urls import path

from gateway import views
from seckill.web import url_converters  # noqa: F401  # registers row_id

urlpatterns = [
    path("sessions", views.sessions),
    path("sales/<row_id:sale_id>/ticket", views.ticket),
]
