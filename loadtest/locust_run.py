"""Shell: one Locust test in one process: its sale, its log, how strained the process is."""

from __future__ import annotations

import json
import logging
import os
import time
import urllib.request
from pathlib import Path

import gevent
from locust.env import Environment

from loadtest.buyers import API
from loadtest.ledger import ClientLog, declare
from loadtest.strain import EVERY_S, WARNING, Strain

log = logging.getLogger(__name__)

DEFAULT_HOST = "http://127.0.0.1:8000"


class Run:
    def __init__(self, environment: Environment) -> None:
        options = environment.parsed_options
        assert options is not None
        host = environment.host or DEFAULT_HOST
        self.sale = options.sale or _newest_sale(host)
        self.name = f"{time.strftime('%H%M%S')}-{os.getpid()}"
        path = Path(options.evidence) / f"locust-{time.strftime('%Y%m%d')}-{self.name}.jsonl"
        declare(path, self.sale, environment.runner.target_user_count if environment.runner else 0)
        self.log = ClientLog(path, url=host, sale=self.sale)
        self.buyers = 0
        self.is_stopping = False
        self.strain = Strain(time.monotonic(), time.process_time())
        self._watching = gevent.spawn(self._watch)
        log.info("sale %s, evidence in %s", self.sale, path)

    def close(self) -> None:
        self._watching.kill()
        strained = self.strain.so_far(time.monotonic(), time.process_time())
        self.log.write("generator", **strained._asdict())
        self.log.close()
        (log.warning if strained.is_too_much else log.info)("%s", strained)
        if strained.is_too_much:
            log.warning(WARNING)

    def _watch(self) -> None:
        while True:
            due = time.monotonic() + EVERY_S
            gevent.sleep(EVERY_S)
            self.strain.note(time.monotonic() - due)
            self.log.flush()


def _newest_sale(host: str) -> int:
    with urllib.request.urlopen(f"{host.rstrip('/')}{API}/sales", timeout=10) as answer:
        sales: list[int] = [sale["id"] for sale in json.load(answer)["sales"]]
    if not sales:
        raise RuntimeError("there is no sale: `seckill manage sale create …` makes one")
    return max(sales)
