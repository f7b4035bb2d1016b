"""The gateway for whatever server speaks WSGI: its desk is a thread of the same process. `seckill.rsgi` is quicker."""

import os

from django.core.wsgi import get_wsgi_application

from seckill.binding import check_granian
from seckill.database import WEB_STATEMENT_MS

check_granian("the gateway")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))

application = get_wsgi_application()

from gateway.starting import check  # noqa: E402  # needs what has just been set up
from seckill import logs  # noqa: E402
from seckill.garbage import settle_down  # noqa: E402

logs.of_a_web_server()
check()
settle_down()
