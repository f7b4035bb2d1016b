"""The view to compare with: Django with the gateway's settings and middleware, and a view that does nothing.

It is served like the gateway (Granian's interface RSGI, Django called on the event loop), and by WSGI, which is faster
for such a view.
"""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
django.setup()

from django.conf import settings  # noqa: E402  # Django had to be set up
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.core.signals import request_started  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from gateway.django_threads import read_response, wsgi_environ  # noqa: E402
from gateway.http import read_request  # noqa: E402
from seckill.config.garbage import tune_collector  # noqa: E402


@csrf_exempt
def nothing(request: HttpRequest, sale_id: int = 0) -> HttpResponse:
    return JsonResponse({"nothing": True}, status=202)


def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n")


class BareView:
    """Calls Django on the loop: a view that never waits needs no thread, and a hand-over would only slow it down."""

    def __init__(self) -> None:
        self._handler = WSGIHandler()

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        request = read_request(scope, protocol)
        environ = wsgi_environ(request)
        environ["wsgi.input"] = BytesIO(await request.body())
        request_started.send(sender=type(self._handler), environ=environ)
        response = self._handler.get_response(self._handler.request_class(environ))
        status, headers, body = read_response(response)
        response.close()
        protocol.response_bytes(status, headers, body)


urlpatterns = [path("livez", alive), path("api/v1/sales/<int:sale_id>/purchases", nothing)]

settings.ROOT_URLCONF = __name__
application = BareView()
wsgi = get_wsgi_application()
tune_collector()
