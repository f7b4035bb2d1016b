"""Shell: produce and consume with librdkafka, many messages per call, so that Python is not the limit."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch, payload

AT_ONCE_BYTES = 1 << 20
QUEUE_KB = 64 * 1024


def produce(spec: Spec) -> Result:
    """Send for the given time or number of records, and wait for the last acknowledgement."""
    size, partitions = spec["size"], spec.get("partitions", 1)
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{spec['port']}",
            "acks": spec["acks"],
            "linger.ms": 5,
            "queue.buffering.max.kbytes": QUEUE_KB,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "log_level": 0,
        }
    )
    value = payload(size)
    at_once = max(10, min(5000, AT_ONCE_BYTES // size))
    most, seconds = spec.get("records", 0), spec.get("seconds", 600.0)
    rejected = 0

    def failed(error: Any, message: Any) -> None:
        nonlocal rejected
        rejected += error is not None

    producer.produce(spec["topic"], value, partition=0, on_delivery=failed)
    producer.flush(30)  # wait for metadata and a connection
    messages = [{"value": value, "partition": n % partitions} for n in range(at_once)]
    queued = 1
    watch = Stopwatch()
    while watch.seconds < seconds and (not most or queued < most):
        part = messages if not most or most - queued >= at_once else messages[: most - queued]
        try:
            taken = producer.produce_batch(spec["topic"], part, on_delivery=failed)
        except BufferError:
            taken = 0
        queued += taken
        producer.poll(0 if taken == len(part) else 0.002)
    left = producer.flush(60)
    return watch.result(queued - 1 - rejected - left, size, rejected=rejected + left)


def consume(spec: Spec) -> Result:
    """Read the given number of records from the beginning of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{spec['port']}",
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,  # the default sleeps for a second when the queue is full
            "log_level": 0,
        }
    )
    wanted = spec["records"]
    watch = Stopwatch()
    consumer.assign([TopicPartition(spec["topic"], index, 0) for index in range(spec.get("partitions", 1))])
    got = rejected = 0
    while got < wanted and watch.seconds < 60:
        messages = consumer.consume(10_000, 0.05)
        for message in messages:
            if message.error() is not None:
                rejected += 1
        got += len(messages)
    result = watch.result(got - rejected, spec["size"], rejected=rejected + max(0, wanted - got))
    consumer.close()
    return result
