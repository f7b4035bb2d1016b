"""The gateway's WSGI application. Its threads share a pool of database connections; most of what they do needs none."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")

application = get_wsgi_application()

from gateway.door import door  # noqa: E402  # needs what has just been set up
from gateway.hatch import hire  # noqa: E402
from gateway.starting import check  # noqa: E402
from seckill import logs  # noqa: E402
from seckill.garbage import settle_down  # noqa: E402

logs.of_a_web_server()
check()
door.behind = hire()
settle_down()
