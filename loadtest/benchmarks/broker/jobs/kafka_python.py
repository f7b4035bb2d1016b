"""Shell: produce and consume with kafka-python. It is pure Python, so the client is the limit."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch, payload
from seckill.config.kafka_clients import client_options


def produce(spec: Spec) -> Result:
    acks = spec["acks"]
    producer = KafkaProducer(
        **client_options(f"127.0.0.1:{spec['port']}"),
        acks=acks if acks == "all" else int(acks),
        enable_idempotence=False,
        linger_ms=5,
        batch_size=64 * 1024,
    )
    value, topic, partitions = payload(spec["size"]), spec["topic"], spec.get("partitions", 1)
    producer.send(topic, value, partition=0).get(30)
    sent, futures, seconds = 0, [], spec["seconds"]
    watch = Stopwatch()
    while watch.seconds < seconds:
        for _ in range(100):
            sent += 1
            future = producer.send(topic, value, partition=sent % partitions)
        futures.append(future)
    producer.flush(60)
    rejected = sum(100 for future in futures if not future.succeeded())
    result = watch.result(sent - rejected, spec["size"], rejected=rejected)
    producer.close()
    return result


def consume(spec: Spec) -> Result:
    """Read from the beginning of the topic for the given time."""
    consumer = KafkaConsumer(**client_options(f"127.0.0.1:{spec['port']}"), enable_auto_commit=False)
    partitions = [TopicPartition(spec["topic"], index) for index in range(spec.get("partitions", 1))]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    got, first = 0, time.monotonic()
    while not got and time.monotonic() - first < 30:
        got = _count(consumer)
    got, wanted, seconds = 0, spec["records"], spec["seconds"]
    watch = Stopwatch()
    while watch.seconds < seconds:
        got += _count(consumer)
        if got >= wanted - 10_000:  # do not wait at the end of the topic
            break
    result = watch.result(got, spec["size"])
    consumer.close()
    return result


def _count(consumer: KafkaConsumer) -> int:
    polled = consumer.poll(timeout_ms=100, max_records=5000)
    return sum(len(records) for records in polled.values())
