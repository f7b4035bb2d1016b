"""Three brokers for the tests of this folder. A test that kills some starts them again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seckill.stack.broker_cluster import BrokerCluster
from tests.cluster.peer import make_cluster

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with make_cluster(tmp_path_factory.mktemp("cluster")) as shared:
        yield shared


@pytest.fixture
def whole_cluster(cluster: BrokerCluster) -> Iterator[BrokerCluster]:
    """The shared cluster; afterwards all its brokers run again."""
    yield cluster
    for node in cluster.nodes.values():
        if not node.is_running:
            node.kill()
            node.launch()
    for node in cluster.nodes.values():
        node.wait_until_ready()


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., BrokerCluster]]:
    """Makes clusters that are not started yet."""
    made: list[BrokerCluster] = []

    def make(**settings: str) -> BrokerCluster:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        made.append(make_cluster(tmp_path / f"cluster-{len(made)}", named))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def topic() -> str:
    return f"topic-{os.getpid()}-{next(_numbers)}"
