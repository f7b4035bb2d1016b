"""Shell: one Locust test in one process: its sale, its log, and the load of the process itself."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import gevent
from locust.env import Environment

from loadtest.client_log import ClientLog, declare
from loadtest.generator_load import CHECK_EVERY_S, WARNING, LoadMonitor
from loadtest.locust_page import DEFAULT_HOST, running_sale

log = logging.getLogger(__name__)


class LocustRun:
    def __init__(self, environment: Environment) -> None:
        options = environment.parsed_options
        assert options is not None
        host = environment.host or DEFAULT_HOST
        self.sale = options.sale or _running_sale(host)
        self.name = f"{time.strftime('%H%M%S')}-{os.getpid()}"
        path = Path(options.evidence) / f"locust-{time.strftime('%Y%m%d')}-{self.name}.jsonl"
        declare(path, self.sale, environment.runner.target_user_count if environment.runner else 0)
        self.log = ClientLog(path, url=host, sale=self.sale)
        self.buyers = 0
        self.is_stopping = False
        self._monitor = LoadMonitor(time.monotonic(), time.process_time())
        self._monitoring = gevent.spawn(self._check_forever)
        log.info("sale %s, evidence in %s", self.sale, path)

    def close(self) -> None:
        self._monitoring.kill()
        load = self._monitor.load(time.monotonic(), time.process_time())
        self.log.write("generator", **load._asdict())
        self.log.close()
        (log.warning if load.is_too_high else log.info)("%s", load)
        if load.is_too_high:
            log.warning(WARNING)

    def _check_forever(self) -> None:
        while True:
            due = time.monotonic() + CHECK_EVERY_S
            gevent.sleep(CHECK_EVERY_S)
            self._monitor.note(time.monotonic() - due)
            self.log.flush()


def _running_sale(host: str) -> int:
    sale = running_sale(host)
    if sale is None:
        raise RuntimeError("there is no sale; `seckill sale create …` creates one")
    return int(sale["id"])
