"""The liveness check: it answers while the process runs, whatever else is down."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse


def livez(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")
