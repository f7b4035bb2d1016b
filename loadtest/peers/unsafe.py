"""Shell: `python -m loadtest.peers.unsafe`: inventory as it is written in a hurry, for `seckill demo --unsafe`.

It reads purchase.requests in inventory's place and works a batch in many threads: read the stock, look whether the
user holds something, and a moment later write what follows from it. No lock, no inbox, no constraint; the offsets
advance after the effects, and each batch is delivered a second time, as a crash at that point would have it. What it
breaks is what the report must find.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import django
from django.conf import settings

from gateway.events import read
from inventory.events import Decision
from loadtest.peers import books
from loadtest.peers.books import Place
from seckill import logs
from seckill.streams.records import Batch, Received
from seckill.topics import PURCHASE_REQUESTS

log = logging.getLogger(__name__)

THREADS = 16
THINKING_S = 0.005
"""Between reading and writing: what a call to a risk service, a cache or a log would take."""


class UnsafeRequests:
    group = "inventory"
    topics = (PURCHASE_REQUESTS,)

    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(THREADS)

    def handle(self, batch: Batch) -> None:
        for _ in ("delivered", "delivered again"):
            list(self._threads.map(lambda record: self._one(batch, record), batch.records))

    def _one(self, batch: Batch, record: Received) -> None:
        """Read, think, write."""
        request = read(record.envelope)
        with books.pool(self._url).connection() as db:
            stock = books.stock_of(db, request, locked=False)
            if stock is None:
                return
            decision = books.rule(request, stock, books.is_holder(db, request))
            time.sleep(THINKING_S)
            place = Place(batch.cluster_id, batch.topic_id, batch.partition, record.offset)
            with db.transaction():
                version = stock.version
                if decision is Decision.RESERVED:
                    version += 1
                    books.overwrite(db, stock, request.quantity)
                books.write(db, request, stock, decision, version, place)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    django.setup()
    from seckill.streams.loop import Loop  # has models
    from seckill.streams.working import Delivery

    logs.to_stderr()
    environment = settings.ENVIRONMENT
    with books.pool(environment.database_url).connection() as db:
        dropped = books.guards_off(db)
    log.info("guards off", extra={"dropped": ", ".join(dropped) or "none was left"})
    handler = UnsafeRequests(environment.database_url)
    loop = Loop(handler, environment.kafka_bootstrap_servers, "unsafe", Delivery.AT_LEAST_ONCE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    loop.run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
