"""The gateway's process: `granian --interface rsgi gateway.app:application`."""

import os
import threading

import django

from gateway.stop_signals import hold_signals
from seckill.config.database import WEB_STATEMENT_MS
from seckill.config.public_bind import check_granian

check_granian("the gateway")
hold_signals()  # before any thread starts
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")  # shared by all threads; most of what they do needs no connection
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

from django.conf import settings  # noqa: E402  # Django had to be set up

from gateway import sales  # noqa: E402
from gateway.routes import Gateway  # noqa: E402
from gateway.startup_checks import run_checks  # noqa: E402
from gateway.traced import TracedGateway  # noqa: E402
from seckill.config.garbage import tune_collector  # noqa: E402
from seckill.config.open_files import raise_limit  # noqa: E402
from seckill.monitoring import logs, spans  # noqa: E402

raise_limit(2 * settings.ENVIRONMENT.gateway_connections)
logs.configure_web_server()
run_checks()
threading.Thread(target=sales.keep_fresh, name="sales", daemon=True).start()
gateway_type = TracedGateway if spans.start("gateway") else Gateway
application = gateway_type(settings.ENVIRONMENT.gateway_connections)
tune_collector()
