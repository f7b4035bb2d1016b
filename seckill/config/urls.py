"""Where each address leads: the API of the services under /api/v1, pages for people at the root."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.i18n import set_language

from gateway.api import document
from gateway.metrics import metrics
from gateway.views import readyz


def livez(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [
    path("api/v1/", include("gateway.urls")),  # first, because Django tries one after the other
    path("livez", livez),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/docs", document.docs),
    path("api/openapi.json", document.openapi),
    path("problems/<slug:kind>", document.problem),
    path("api/v1/", include("orders.urls")),
    path("", include("gateway.pages.urls")),
    path("orders", include("orders.pages")),
    path("console", include("seckill.console.urls")),
    path("i18n/language", set_language, name="set_language"),
]
handler404 = "seckill.pages.missing"
handler500 = "seckill.pages.broken"
