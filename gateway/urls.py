"""Addresses of the gateway, under /api/v1."""

from django.urls import path

from gateway import views

urlpatterns = [
    path("sales/<int:sale_id>/purchases", views.purchases),
    path("sessions", views.sessions),
    path("sales", views.all_sales),
    path("sales/<int:sale_id>", views.one_sale),
    path("sales/<int:sale_id>/ticket", views.ticket),
    path("purchases/<uuid:request_id>", views.purchase),
]
