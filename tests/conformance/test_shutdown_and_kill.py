"""A broker that is stopped answers its requests first; one that is killed loses nothing it acknowledged.

`KILLS=200 SEED=7 pytest tests/conformance/test_shutdown_and_kill.py -k killed` kills more often, or repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest

from seckill.stack.broker_process import BrokerProcess
from tests.conformance.committed_offsets import commit, committed, name, read_all
from tests.conformance.raw import (
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    METADATA,
    PRODUCE,
    Gone,
    Wire,
    batched,
    fetch_request,
    produce_request,
)

KILLS = int(os.environ.get("KILLS", "20"))


def test_sigterm_answers_waiting_requests_and_the_next_start_verifies_nothing(
    new_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = new_broker(group_initial_rebalance_delay_ms="60000").start()
    with Wire(broker.port) as fetching, Wire(broker.port) as joining, Wire(broker.port) as idle:
        fetching.create(topic)
        fetching.produce(topic, batched(b"x" * 100))
        fetching.send(FETCH, 11, fetch_request(topic, 1, max_wait_ms=60_000))
        joining.ask(FIND_COORDINATOR, 2, {"key": group, "key_type": 0})
        protocols = [{"name": "range", "metadata": b""}]
        member = {"group_id": group, "member_id": "", "protocol_type": "consumer", "protocols": protocols}
        joining.send(JOIN_GROUP, 3, {**member, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000})
        idle.ask(METADATA, 1, {"topics": []})  # answered after the broker has handled the two requests above
        assert broker.stop() == 0
        assert fetching.receive()[1].responses[0].partitions[0].high_watermark == 1
        assert name(joining.receive()[1].error_code) == "NOT_COORDINATOR"
        for wire in (fetching, joining, idle):
            with pytest.raises(Gone):
                wire.receive()
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    second_life = broker.log.rpartition("listening")[2]
    assert "clean=True" in second_life and "log recovered" not in second_life


def test_after_a_kill_the_next_start_verifies(new_broker: Callable[..., BrokerProcess], topic: str) -> None:
    """The negative control of the test above."""
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic)
        wire.produce(topic)
    broker.kill()
    broker.start()
    assert "clean=False" in broker.log.rpartition("listening")[2]


def test_a_pending_produce_is_answered_before_the_broker_exits(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = new_broker().start()
    with Wire(broker.port) as wire:
        wire.create(topic, flush_messages="1")
        for _ in range(100):
            wire.send(PRODUCE, 9, produce_request(topic))
        wire.receive()
        broker.stop()
        answered = 1
        try:
            while True:
                assert wire.receive()[1].responses[0].partition_responses[0].error_code == 0
                answered += 1
        except Gone:
            pass
    broker.start()
    with Wire(broker.port) as wire:
        assert wire.end(topic) == answered


class Writer(threading.Thread):
    """Produces, commits and creates topics as fast as it can, and records what was acknowledged."""

    def __init__(self, port: int, topic: str, round_number: int) -> None:
        super().__init__(daemon=True)
        self._port, self._topic, self._round = port, topic, round_number
        self.produced: list[tuple[str, int, bytes]] = []
        self.committed: dict[str, tuple[int, int]] = {}  # acknowledged, requested
        self.made: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        try:
            with Wire(self._port) as wire:
                number = 0
                while True:
                    self._step(wire, number)
                    number += 1
        except (Gone, OSError):
            pass

    def _step(self, wire: Wire, number: int) -> None:
        value = b"%d.%d" % (self._round, number)
        for topic in (f"{self._topic}-fast", f"{self._topic}-durable"):
            answer = wire.produce(topic, batched(value))
            if answer.error_code:
                self.errors.append(name(answer.error_code))
            else:
                self.produced.append((topic, answer.base_offset, value))
        group = f"{self._topic}-group-{number % 3}"
        offset = self._round * 1_000_000 + number
        acknowledged = self.committed.get(group, (-1, -1))[0]
        self.committed[group] = (acknowledged, offset)
        error = commit(wire, group, f"{self._topic}-fast", offset)
        if error == "NONE":
            self.committed[group] = (offset, offset)
        elif error != "COORDINATOR_LOAD_IN_PROGRESS":
            self.errors.append(error)
        if number % 7 == 0:
            made = f"{self._topic}-made-{self._round}-{number}"
            wire.create(made)
            self.made.append(made)


@pytest.mark.timeout(60 + 6 * KILLS)
def test_a_broker_killed_at_any_instant_loses_nothing_it_acknowledged(
    new_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    print(f"SEED={seed} KILLS={KILLS}")
    chance = random.Random(seed)
    broker = new_broker(log_segment_bytes="16384", offsets_topic_segment_bytes="16384", log_cleaner_backoff_ms="50")
    broker.settings.update({"log.flush.offset.checkpoint.interval.ms": "100", "log.retention.check.interval.ms": "100"})
    broker.settings["log.segment.delete.delay.ms"] = "100"
    broker.start()
    with Wire(broker.port) as wire:
        wire.create(f"{topic}-fast")
        wire.create(f"{topic}-durable", flush_messages="1")
        wire.ask(FIND_COORDINATOR, 2, {"key": "any", "key_type": 0})
    promised: dict[tuple[str, int], bytes] = {}
    groups: dict[str, tuple[int, int]] = {}
    made: set[str] = set()
    round_number = 0
    while round_number < KILLS or len(promised) <= 10 * KILLS:  # on a busy machine, a round acknowledges few records
        writer = Writer(broker.port, topic, round_number)
        writer.start()
        time.sleep(chance.uniform(0.01, 0.4))
        broker.kill()
        writer.join(30)
        assert not writer.errors
        promised.update({(where, offset): value for where, offset, value in writer.produced})
        for group, (acknowledged, asked) in writer.committed.items():
            groups[group] = (max(acknowledged, groups.get(group, (-1, -1))[0]), asked)
        made.update(writer.made)
        broker.start()
        with Wire(broker.port) as wire:
            check(wire, topic, promised, groups, made)
        round_number += 1
    assert made and groups
    assert "corrupt" not in broker.log


def check(
    wire: Wire,
    topic: str,
    promised: dict[tuple[str, int], bytes],
    groups: dict[str, tuple[int, int]],
    made: set[str],
) -> None:
    for where in (f"{topic}-fast", f"{topic}-durable"):
        found = read_all(wire, where)
        assert [offset for offset, _ in found] == list(range(len(found)))
        values = [value for _, value in found]
        assert len(set(values)) == len(values), "nothing was sent twice"
        for (place, offset), value in promised.items():
            if place == where:
                assert values[offset] == value
    listed = {entry.name for entry in wire.ask(METADATA, 1, {"topics": None}).topics}
    assert made <= listed
    for group, (acknowledged, asked) in groups.items():
        assert acknowledged <= committed(wire, group, f"{topic}-fast") <= asked
