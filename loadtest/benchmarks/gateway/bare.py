"""The view to compare with: Django with the gateway's settings and middleware, and a view that does nothing.

It is served like the gateway, on the event loop of `gateway.serving`, and by WSGI, which is faster for such a view.
"""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
django.setup()

from django.conf import settings  # noqa: E402  # Django had to be set up
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from gateway.serving import Serving  # noqa: E402

from seckill.config.garbage import tune_collector  # noqa: E402


@csrf_exempt
def nothing(request: HttpRequest, sale_id: int = 0) -> HttpResponse:
    return JsonResponse({"nothing": True}, status=202)


def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n")


urlpatterns = [path("livez", alive), path("api/v1/sales/<int:sale_id>/purchases", nothing)]

settings.ROOT_URLCONF = __name__
application = Serving(lambda method, path: True, lambda loop: None)
wsgi = get_wsgi_application()
tune_collector()
