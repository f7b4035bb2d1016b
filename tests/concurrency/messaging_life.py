"""One life of a consumer in a process that a test can kill. Arguments: TOPIC PARTITIONS GUARANTEE."""

from __future__ import annotations

import signal
import sys

import django


def main(topic_name: str, partitions: str, delivery: str) -> None:
    django.setup()
    from django.conf import settings

    from seckill.messaging import consume_loop
    from seckill.messaging.batch_worker import DeliveryGuarantee
    from seckill.messaging.topics import Topic
    from tests.concurrency.messaging_cast import Notes

    consume_loop.SESSION_TIMEOUT_MS = 2_000
    handler = Notes(topic=Topic(topic_name, "effects", ("readers",), partitions=int(partitions)))
    running = consume_loop.ConsumeLoop(
        handler, settings.ENVIRONMENT.kafka_bootstrap_servers, "life", DeliveryGuarantee(delivery)
    )
    signal.signal(signal.SIGTERM, lambda *_: running.stop())
    running.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
