"""A short run of `python -m tests.cluster.chaos`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from seckill.stack.broker_cluster import BrokerCluster
from tests.cluster.chaos import run


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_doubled_moved_or_reordered_while_brokers_are_killed_and_frozen(
    new_cluster: Callable[..., BrokerCluster],
) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(10**6)))
    assert run(new_cluster().start(), 30.0, seed, print) == [], f"SEED={seed}"
