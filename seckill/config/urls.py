"""All addresses: the API of the services under /api/v1, pages at the root."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from gateway.api import document
from gateway.metrics import metrics
from gateway.views import readyz
from seckill.console import start
from seckill.web.health import livez

admin.autodiscover()
urlpatterns = [
    path("api/v1/", include("gateway.urls")),  # first, because Django tries them in order
    path("livez", livez),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/docs", document.docs),
    path("api/openapi.json", document.openapi),
    path("problems/<slug:kind>", document.problem),
    path("api/v1/", include("orders.urls")),
    path("", include("gateway.pages.urls")),
    path("orders", include("orders.pages")),
    path("start", start.start, name="start"),
    path("console", include("seckill.console.urls")),
    path("admin/", admin.site.urls),
    path("i18n/language", set_language, name="set_language"),
]
handler404 = "seckill.web.pages.page_not_found"
handler500 = "seckill.web.pages.server_error"
