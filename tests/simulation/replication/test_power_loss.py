"""What a power loss can take when the ISR may shrink to its last member (there is no ELR, KIP-966).

A topic that acknowledges from the page cache loses acknowledged records if the last member of the ISR loses its power:
it leads again with a shorter log, and the others cut theirs. A topic with `flush.messages=1` loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.replication.bench import Bench
from tests.simulation.replication.records import RecordId
from tests.simulation.replication.scenario_steps import acknowledged
from tests.simulation.replication.setup import Setup

Scenario = Callable[..., list[RecordId]]

KEPT = [RecordId(1, number) for number in range(4)]


def write_and_replicate(bench: Bench) -> None:
    """Four records are acknowledged by all three brokers."""
    for number in range(4):
        answers = bench.produce(1, number)
        for _ in range(2):
            for broker in (1, 2, 3):
                if bench.replica(broker).rules.durable_only:
                    bench.replica(broker).sync()
            bench.replicate(2, 3)
        assert acknowledged(answers)


def last_replica_standing(seed: int, *, durable_only: bool) -> list[RecordId]:
    """S15: the ISR shrinks to broker 1, which then loses its power. Returns what all brokers end up with."""
    bench = Bench(Setup(durable_only=durable_only), seed)
    write_and_replicate(bench)
    bench.fence(2, 3)
    bench.truth.tolerates_loss = True
    bench.power_loss(1)
    return restart(bench, 1, others=(2, 3), crashed=())


def whole_cluster(seed: int, *, durable_only: bool) -> list[RecordId]:
    """S16: all brokers lose their power at once, broker 1 as the last member of the ISR."""
    bench = Bench(Setup(durable_only=durable_only), seed)
    write_and_replicate(bench)
    bench.fence(3, 2)
    bench.truth.tolerates_loss = True
    for number in (1, 2, 3):
        bench.power_loss(number)
    return restart(bench, 1, others=(2, 3), crashed=(2, 3))


def restart(bench: Bench, leader: int, *, others: tuple[int, ...], crashed: tuple[int, ...]) -> list[RecordId]:
    bench.start_and_register(leader)
    for number in others:
        if number in crashed:
            bench.start_and_register(number)
        else:
            bench.unfence(number)
    bench.tell(1, 2, 3)
    for number in others:
        bench.replicate(number)
        if bench.replica(number).rules.durable_only:
            bench.replica(number).sync()
            bench.replicate(number)
    assert bench.records(1) == bench.records(2) == bench.records(3), "whatever is left, all have the same"
    return bench.records(1)


@pytest.mark.parametrize("scenario", [last_replica_standing, whole_cluster])
def test_with_flush_messages_one_no_acknowledged_record_is_lost(scenario: Scenario) -> None:
    for seed in range(12):
        assert scenario(seed, durable_only=True) == KEPT, seed


@pytest.mark.parametrize("scenario", [last_replica_standing, whole_cluster])
def test_without_it_acknowledged_records_can_be_lost(scenario: Scenario) -> None:
    """The negative control, and what this design gives up."""
    assert any(scenario(seed, durable_only=False) != KEPT for seed in range(12))
