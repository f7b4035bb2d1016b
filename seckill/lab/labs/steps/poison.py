"""Lab 9. One record of a partition cannot be processed. Broken: it is retried until it works. Fixed: a dead letter."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from django.db import connection

from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.lab.labs.steps.purchases import replaced
from seckill.messaging.batch_worker import BatchWorker, RetryLater
from seckill.messaging.consume_loop import ConsumeLoop
from seckill.messaging.models import DeadLetter
from seckill.messaging.offsets import PartitionClaim
from seckill.messaging.records import Batch
from seckill.stack.child_processes import wait_until

RECORDS, POISON, TRIES_SEEN = 60, 20, 3


def retry_until_it_works(
    worker: BatchWorker, claim: PartitionClaim, record: object, start: int, fault: Exception
) -> int:
    raise RetryLater(str(fault)) from fault


class ChokesOnPoison(log.NoteNumbers):
    tries = 0

    def handle(self, batch: Batch) -> None:
        if any(record.envelope.body["number"] == POISON for record in batch.records):
            self.tries += len(batch.records) == 1
            raise ValueError(f"record {POISON} is malformed")
        super().handle(batch)


def run(step: Step, variant: Variant) -> Observation:
    log.create_effects_table()
    topic = log.create_topic(step.bootstrap_servers)
    log.fill(step.bootstrap_servers, topic, range(RECORDS))
    handler = ChokesOnPoison(topic)
    loop = ConsumeLoop(handler, step.bootstrap_servers, "lab")

    def consume() -> None:
        try:
            loop.run()
        finally:
            connection.close()

    def is_seen() -> bool:
        """Broken: it had a few more tries than the fixed one allows. Fixed: it has read to the end."""
        return handler.tries > TRIES_SEEN if variant is Variant.BROKEN else log.records_read(topic) == RECORDS

    with ExitStack() as composed:
        if variant is Variant.BROKEN:
            composed.enter_context(replaced(BatchWorker, "_handle_failure", retry_until_it_works))
        consumer = threading.Thread(target=consume)
        consumer.start()
        try:
            wait_until(is_seen, "the consumer to meet the poison")
        finally:
            loop.stop()
            consumer.join()
    processed = len(set(log.effects()))
    letters = DeadLetter.objects.count()
    waiting = RECORDS - 1 - processed
    bars = (
        Bar("good records processed", processed),
        Bar("dead letters", letters),
        Bar("good ones waiting", waiting, True),
    )
    return Observation(
        waiting,
        {"good records": RECORDS - 1, "processed": processed, "tries of the bad record": handler.tries,
         "dead letters for an operator": letters},
        Chart(y="records", bars=bars),
    )  # fmt: skip
