"""A short run of `python -m tests.cluster.chaos`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from seckill.stack.broker_cluster import BrokerCluster
from tests.cluster.chaos import TimedWriter, longest_gaps, run
from tests.cluster.troubles import Trouble
from tests.conformance.history import Sent, Span


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_correct_log_explains_what_clients_saw_while_brokers_were_in_trouble(
    new_cluster_with_network: Callable[..., BrokerCluster],
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    assert run(new_cluster_with_network().start(), 30.0, seed, print) == [], f"SEED={seed}"


def test_the_longest_gap_after_a_trouble_counts_for_the_partitions_that_the_broker_led() -> None:
    writer = TimedWriter("ann", "", "topic", 2)
    for partition, moments in ((0, (99.5, 100.0, 103.5, 104.0, 200.0)), (1, (100.0, 109.0))):
        for number, moment in enumerate(moments):
            writer.spans[Sent("ann", partition, number)] = Span(moment - 0.1, moment)
    past = [Trouble(100.1, "kill", 1, (0,)), Trouble(105.0, "pause", 2, (1,)), Trouble(106.0, "kill", 3, ())]
    assert longest_gaps(past, [writer], "kill") == [3.5]
    assert longest_gaps(past, [writer], "pause") == [], "only one acknowledgement before the next trouble"
