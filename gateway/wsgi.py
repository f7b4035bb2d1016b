"""The gateway for whatever server speaks WSGI: its desk is a thread of the same process. `gateway.rsgi` is quicker."""

import os

from django.core.wsgi import get_wsgi_application

from seckill.config.database import WEB_STATEMENT_MS
from seckill.config.public_bind import check_granian

check_granian("the gateway")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "16")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))

application = get_wsgi_application()

from gateway.startup_checks import run_checks  # noqa: E402  # needs what has just been set up
from seckill.config.garbage import tune_collector  # noqa: E402
from seckill.monitoring import logs  # noqa: E402

logs.configure_web_server()
run_checks()
tune_collector()
