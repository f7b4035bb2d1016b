"""Lab 6. A consumer freezes in a batch, another takes over, the first wakes up. Broken: without the fence."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.lab.labs.steps.purchases import replaced
from seckill.messaging import binary_sql, offsets
from seckill.messaging.batch_worker import BatchWorker
from seckill.messaging.offsets import ClaimFenced, PartitionClaim
from seckill.messaging.records import Batch
from seckill.stack.child_processes import wait_until

RECORDS = 40


def update_without_fence(statement: str, parameters: list[str | int], claim: PartitionClaim, start: int) -> None:
    """The same statement, without a look at how many rows it has changed."""
    binary_sql.execute(statement, parameters)


class FreezesOnce(log.NoteNumbers):
    """SIGSTOP before its first effect, as after a long pause of the garbage collector, the disk or the virtual host."""

    def handle(self, batch: Batch) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        super().handle(batch)


def work(step: Step, role: str) -> None:
    """The consumer that freezes."""
    variant, name = role.split(":")
    topic = log.topic_named(name)
    with ExitStack() as composed:
        if variant == Variant.BROKEN:
            composed.enter_context(replaced(offsets, "_update", update_without_fence))
        outcome = process_all(step.bootstrap_servers, FreezesOnce(topic, "zombie"), topic.name)
    (step.folder / "zombie.txt").write_text(outcome)


def process_all(bootstrap_servers: str, handler: log.NoteNumbers, topic: str) -> str:
    """Claim the partition and process all its records as one batch."""
    claim = offsets.claim_partition("lab", "lab", topic, 0, log.GROUP, 0)
    try:
        BatchWorker(handler).process(claim, _fetch(bootstrap_servers, topic), claim.next_offset)
    except ClaimFenced as fenced:
        return f"fenced: {fenced}"
    return "committed"


def _fetch(bootstrap_servers: str, topic: str) -> list[Any]:
    consumer = KafkaConsumer(**client_options(bootstrap_servers), enable_auto_commit=False)
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        records: list[Any] = []
        while len(records) < RECORDS:
            records += [record for polled in consumer.poll(500).values() for record in polled]
        return records
    finally:
        consumer.close()


def run(step: Step, variant: Variant) -> Observation:
    log.create_effects_table()
    topic = log.create_topic(step.bootstrap_servers)
    log.fill(step.bootstrap_servers, topic, range(RECORDS))
    with step.worker(f"{variant}:{topic.name}") as zombie:
        wait_until(lambda: _is_stopped(zombie.pid), "the first consumer to freeze")
        step.tell("the first consumer is frozen in its batch (SIGSTOP); a second one takes the partition over")
        process_all(step.bootstrap_servers, log.NoteNumbers(topic, "successor"), topic.name)
        step.tell("the first consumer wakes up (SIGCONT) and goes on")
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outcome = (step.folder / "zombie.txt").read_text()
    lost, repeated = log.lost_and_repeated(range(RECORDS), log.effects())
    bars = (Bar("records", RECORDS), Bar("effects", len(log.effects())), Bar("effects repeated", repeated, True))
    return Observation(
        repeated + lost,
        {"records": RECORDS, "effects": len(log.effects()), "what the first consumer reached": outcome},
        Chart(y="records and effects", bars=bars),
    )


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "T"
