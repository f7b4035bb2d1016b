"""Where each address leads: the API of the services under /api/v1, the process's own pages at the root."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path


def livez(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [path("livez", livez)]
