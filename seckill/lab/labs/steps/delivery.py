"""Lab 5. A consumer is killed with -9 between its effects and its offset. Broken: two transactions. Fixed: one."""

from __future__ import annotations

import signal

from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import log_of_numbers as log
from seckill.messaging.batch_worker import DeliveryGuarantee
from seckill.messaging.consume_loop import ConsumeLoop
from seckill.messaging.topics import Topic

RECORDS = 120
GUARANTEES = {
    Variant.BROKEN: (DeliveryGuarantee.AT_MOST_ONCE, DeliveryGuarantee.AT_LEAST_ONCE),
    Variant.FIXED: (DeliveryGuarantee.EXACTLY_ONCE,),
}
CRASHES = {
    DeliveryGuarantee.AT_MOST_ONCE: ("lab.between",),
    DeliveryGuarantee.AT_LEAST_ONCE: ("lab.between",),
    DeliveryGuarantee.EXACTLY_ONCE: ("lab.before_commit", "lab.after_commit"),
}
"""The fault points between the effects and the offset. In one transaction: before and after it."""


def work(step: Step, role: str) -> None:
    """The consumer, until it is killed or has read everything."""
    guarantee, name = role.split(":")
    topic = log.topic_named(name)
    handler = log.NoteNumbers(topic)
    loop = ConsumeLoop(handler, step.bootstrap_servers, "lab", DeliveryGuarantee(guarantee))
    signal.signal(signal.SIGTERM, lambda *_: loop.stop())
    loop.run()


def run(step: Step, variant: Variant) -> Observation:
    log.create_effects_table()
    facts: dict[str, int | str] = {"records in each topic": RECORDS}
    bars, damage = [], 0
    for guarantee in GUARANTEES[variant]:
        topic = log.create_topic(step.bootstrap_servers)
        log.fill(step.bootstrap_servers, topic, range(RECORDS))
        before = len(log.effects())
        kills = sum(_is_killed_at(step, point, guarantee, topic) for point in CRASHES[guarantee])
        _finish(step, guarantee, topic)
        lost, repeated = log.lost_and_repeated(range(RECORDS), log.effects()[before:])
        step.tell(f"{guarantee.value}: {kills} × kill -9, {lost} lost, {repeated} repeated")
        facts |= {f"{guarantee.value}, lost": lost, f"{guarantee.value}, repeated": repeated}
        bars += [Bar(f"{guarantee.value}: lost", lost, True), Bar(f"{guarantee.value}: repeated", repeated, True)]
        damage += lost + repeated
    return Observation(damage, facts, Chart(y="records", bars=bars))


def _is_killed_at(step: Step, point: str, guarantee: DeliveryGuarantee, topic: Topic) -> bool:
    consumer = step.start_worker(f"{guarantee.value}:{topic.name}", {"SECKILL_FAULT": point})
    try:
        return consumer.wait(60) == -signal.SIGKILL
    finally:
        consumer.kill()
        consumer.wait()


def _finish(step: Step, guarantee: DeliveryGuarantee, topic: Topic) -> None:
    """A last consumer without a fault reads to the end."""
    from seckill.stack.child_processes import end_process, wait_until

    consumer = step.start_worker(f"{guarantee.value}:{topic.name}")
    try:
        wait_until(lambda: log.records_read(topic) == RECORDS, "the consumer to read to the end")
    finally:
        end_process(consumer)
