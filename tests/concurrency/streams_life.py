"""One life of a consumer, as a process that may be killed: TOPIC PARTITIONS DELIVERY; faults by the environment."""

from __future__ import annotations

import signal
import sys

import django


def main(topic_name: str, partitions: str, delivery: str) -> None:
    django.setup()
    from django.conf import settings

    from seckill.streams import loop
    from seckill.streams.working import Delivery
    from seckill.topics import Topic
    from tests.concurrency.streams_cast import Notes

    loop.SESSION_MS = 2_000
    handler = Notes(topic=Topic(topic_name, "effects", ("readers",), partitions=int(partitions)))
    running = loop.Loop(handler, settings.ENVIRONMENT.kafka_bootstrap_servers, "life", Delivery(delivery))
    signal.signal(signal.SIGTERM, lambda *_: running.stop())
    running.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
