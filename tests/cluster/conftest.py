"""Three brokers for the tests of this folder. A test that kills some starts them again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from seckill.stack.broker_cluster import BrokerCluster
from tests.broker_factory import factory
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
    with factory(make_cluster, tmp_path, end=BrokerCluster.kill) as new:
        yield new


@pytest.fixture
def new_cluster_with_network(tmp_path: Path) -> Iterator[Callable[..., BrokerCluster]]:
    """The same, with a network that can be cut."""
    with factory(partial(make_cluster, has_network=True), tmp_path, end=BrokerCluster.kill) as new:
        yield new


@pytest.fixture
def topic() -> str:
    return f"topic-{os.getpid()}-{next(_numbers)}"
