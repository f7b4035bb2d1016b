"""The row lock in a request: Django on Granian with the project's settings and middleware, and a view that only buys.

It has a connection pool, and takes the user from the path without authentication.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
django.setup()

from django.conf import settings  # noqa: E402  # Django had to be set up
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from psycopg import Connection  # noqa: E402
from psycopg_pool import ConnectionPool  # noqa: E402

from loadtest.benchmarks.decisions.row_lock import buy  # noqa: E402
from seckill.config.garbage import tune_collector  # noqa: E402

CONNECTIONS_MAX = 32


@csrf_exempt
def purchase(request: HttpRequest, stock: int, keep: str, user: str) -> HttpResponse:
    with _pool().connection() as connection:
        return JsonResponse({"decision": buy(connection, stock, user, keep == "keep")})


def alive(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n")


@lru_cache(maxsize=1)
def _pool() -> ConnectionPool[Connection[Any]]:
    url = settings.ENVIRONMENT.database_url
    return ConnectionPool(url, min_size=4, max_size=CONNECTIONS_MAX, kwargs={"autocommit": True}, open=True)


urlpatterns = [path("livez", alive), path("<int:stock>/<str:keep>/<str:user>", purchase)]

settings.ROOT_URLCONF = __name__
application = get_wsgi_application()
_pool().wait()
tune_collector()
