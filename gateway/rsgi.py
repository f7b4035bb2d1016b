"""The gateway's application, for Granian's interface RSGI. Its threads share a pool of database connections; most of
what they do needs none."""

import os
import threading

import django

from seckill.config.database import WEB_STATEMENT_MS
from seckill.config.public_bind import check_granian

check_granian("the gateway")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

from gateway import sales  # noqa: E402  # needs what has just been set up
from gateway.door import door  # noqa: E402
from gateway.hatch import hire  # noqa: E402
from gateway.serving import Serving  # noqa: E402
from gateway.startup_checks import run_checks  # noqa: E402
from gateway.staying import stays  # noqa: E402
from seckill.config.garbage import tune_collector  # noqa: E402
from seckill.config.open_files import raise_limit  # noqa: E402
from seckill.monitoring import logs  # noqa: E402

raise_limit()  # how many connections are taken, `--backpressure` says
logs.configure_web_server()
run_checks()
threading.Thread(target=sales.keep_fresh, name="sales", daemon=True).start()
hatch = hire()
door.behind = hatch
application = Serving(stays, hatch.open)
tune_collector()
