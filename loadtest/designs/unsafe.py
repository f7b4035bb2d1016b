"""Shell: `python -m loadtest.designs.unsafe`: inventory without any safeguard, for `seckill demo --unsafe`.

It consumes purchase.requests in place of inventory and processes each batch in many threads: read the stock and the
user's holds, pause, write the result. It has no lock, no inbox and no constraint. It commits offsets after the effects
and processes each batch twice, as a crash at that point would make it do. The report must find what this breaks.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import django
from django.conf import settings

from gateway.events import parse_purchase_request
from inventory.events import Decision
from loadtest.designs import purchase_rows
from loadtest.designs.purchase_rows import Place
from seckill.messaging.records import Batch, ReceivedRecord
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.monitoring import logs

log = logging.getLogger(__name__)

THREADS = 16
PAUSE_S = 0.005
"""Between reading and writing, the time of a call to a risk service, a cache or a log."""


class UnsafeRequests:
    group = "inventory"
    topics = (PURCHASE_REQUESTS,)

    def __init__(self, url: str) -> None:
        self._url = url
        self._threads = ThreadPoolExecutor(THREADS)

    def handle(self, batch: Batch) -> None:
        for _ in ("first delivery", "redelivery"):
            list(self._threads.map(lambda record: self._handle_record(batch, record), batch.records))

    def _handle_record(self, batch: Batch, record: ReceivedRecord) -> None:
        request = parse_purchase_request(record.envelope)
        with purchase_rows.pool(self._url).connection() as db:
            stock = purchase_rows.stock_of(db, request, locked=False)
            if stock is None:
                return
            decision = purchase_rows.decision_for(request, stock, purchase_rows.is_holder(db, request))
            time.sleep(PAUSE_S)
            place = Place(batch.cluster_id, batch.topic_id, batch.partition, record.offset)
            with db.transaction():
                version = stock.version
                if decision is Decision.RESERVED:
                    version += 1
                    purchase_rows.overwrite_stock(db, stock, request.quantity)
                purchase_rows.write_decision(db, request, stock, decision, version, place)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    django.setup()
    from seckill.messaging.batch_worker import DeliveryGuarantee
    from seckill.messaging.consume_loop import ConsumeLoop  # has models

    logs.configure()
    environment = settings.ENVIRONMENT
    dropped = purchase_rows.drop_constraints(environment.database_url)
    log.info("constraints dropped", extra={"names": ", ".join(dropped) or "they were dropped before"})
    handler = UnsafeRequests(environment.database_url)
    loop = ConsumeLoop(handler, environment.kafka_bootstrap_servers, "unsafe", DeliveryGuarantee.AT_LEAST_ONCE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stop())
    loop.run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
