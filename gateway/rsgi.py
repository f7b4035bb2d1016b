"""The gateway's application, for Granian's interface RSGI. Its threads share a pool of database connections; most of
what they do needs none."""

import os
import threading

import django

from seckill.binding import check_granian
from seckill.database import WEB_STATEMENT_MS

check_granian("the gateway")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

from gateway import sales  # noqa: E402  # needs what has just been set up
from gateway.door import door  # noqa: E402
from gateway.hatch import hire  # noqa: E402
from gateway.starting import check  # noqa: E402
from gateway.staying import stays  # noqa: E402
from seckill import logs  # noqa: E402
from seckill.descriptors import raise_limit  # noqa: E402
from seckill.garbage import settle_down  # noqa: E402
from seckill.serving import Serving  # noqa: E402

raise_limit()  # how many connections are taken, `--backpressure` says
logs.of_a_web_server()
check()
threading.Thread(target=sales.keep, name="sales", daemon=True).start()
hatch = hire()
door.behind = hatch
application = Serving(stays, hatch.open)
settle_down()
