"""Three real brokers whose network is cut, in both directions or in one, and a broker whose disk is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from seckill.stack.broker_cluster import BrokerCluster, ClusterNode
from seckill.stack.broker_network import EVERYTHING, NODES, around, from_broker, to_broker
from seckill.stack.broker_relay import Pair
from seckill.stack.child_processes import wait_until
from seckill.stack.full_disk import full_disk
from tests.cluster.peer import make_cluster
from tests.cluster.watching import (
    PATIENCE_S,
    controller,
    in_sync,
    leaders,
    make_topic,
    produce,
    read_all,
    until_in_sync,
)

VALUES = [f"record {number}".encode() for number in range(100)]
TIMES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "250",
    "replica.lag.time.max.ms": "3000",
}

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    cluster = make_cluster(tmp_path_factory.mktemp("cut-off"), TIMES, has_network=True).start()
    yield cluster
    cluster.kill()  # the last one would wait for a controller


@pytest.fixture
def led(shared: BrokerCluster, topic: str) -> ClusterNode:
    """The leader of a new topic with one partition and some records."""
    make_topic(shared, topic, partitions=1)
    until_in_sync(shared, topic, set(NODES))
    produce(shared, topic, VALUES)
    return shared.nodes[leaders(shared, topic)[0]]


def until_led_by_others(cluster: BrokerCluster, topic: str, node: ClusterNode) -> None:
    others = [each for each in NODES if each != node.number]
    wait_until(
        lambda: leaders(cluster, topic, ask=others)[0] in others, f"{topic} to be led by one of {others}", PATIENCE_S
    )


@pytest.mark.parametrize("directions", [around, from_broker, to_broker])
def test_the_others_take_over_from_a_leader_that_is_cut_off(
    shared: BrokerCluster, topic: str, led: ClusterNode, directions: object
) -> None:
    """Whether it is not heard, hears nothing, or both. It acknowledges nothing, and follows when the cut has ended."""
    assert callable(directions)
    with shared.network.cut(directions(led.number)):
        until_led_by_others(shared, topic, led)
        with pytest.raises(AssertionError):
            produce(shared, topic, [b"only at the former leader"], give_up_ms=3000, ask=[led.number])
        others = [each for each in NODES if each != led.number]
        produce(shared, topic, VALUES, ask=others)
    assert shared.network.count_held() > 0
    until_in_sync(shared, topic, set(NODES))
    found = read_all(shared, topic)
    assert found[: len(VALUES)] == VALUES and found[-len(VALUES) :] == VALUES


def test_a_request_that_waits_for_a_frozen_controller_is_answered_by_the_next_one(
    shared: BrokerCluster, topic: str
) -> None:
    """Its connections stay open, so only the election tells the broker in between that it waits in vain."""
    frozen = shared.nodes[controller(shared)]
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        make_topic(shared, topic, ask=[each for each in NODES if each != frozen.number])
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    until_in_sync(shared, topic, set(NODES))
    produce(shared, topic, VALUES)
    assert read_all(shared, topic) == VALUES


def test_without_a_majority_nothing_is_acknowledged_and_nothing_is_lost(
    shared: BrokerCluster, topic: str, led: ClusterNode
) -> None:
    with shared.network.cut(EVERYTHING), pytest.raises(AssertionError):
        produce(shared, topic, [b"unknown"], give_up_ms=3000)
    until_in_sync(shared, topic, set(NODES))
    produce(shared, topic, VALUES)
    found = read_all(shared, topic)
    assert found[: len(VALUES)] == VALUES and found[-len(VALUES) :] == VALUES
    assert set(found[len(VALUES) : -len(VALUES)]) <= {b"unknown"}


def test_a_follower_that_its_leader_does_not_reach_leaves_the_in_sync_replicas(
    shared: BrokerCluster, topic: str, led: ClusterNode
) -> None:
    """The leader removes it, even if the controller reaches both; then records are acknowledged without it."""
    active = controller(shared)
    other = next(node for node in NODES if node not in (led.number, active))
    before = shared.network.count_held()
    with shared.network.cut({Pair(led.number, other), Pair(other, led.number)}):
        produce(shared, topic, VALUES[:10], ask=[led.number, active])
        assert other not in in_sync(shared, topic, ask=[led.number, active])[0]
        assert shared.network.count_held() > before
    until_in_sync(shared, topic, set(NODES))
    assert read_all(shared, topic) == VALUES + VALUES[:10]


def test_connections_that_break_all_the_time_cost_no_record(
    shared: BrokerCluster, topic: str, led: ClusterNode
) -> None:
    resets = 0
    for number, value in enumerate(VALUES[:12]):
        resets += shared.network.reset(EVERYTHING) if number % 3 == 0 else 0
        produce(shared, topic, [value])
    assert resets > 0
    until_in_sync(shared, topic, set(NODES))
    assert read_all(shared, topic) == VALUES + VALUES[:12]


def test_a_broker_whose_disk_is_full_loses_nothing_and_catches_up(
    shared: BrokerCluster, topic: str, led: ClusterNode
) -> None:
    with full_disk(led.pid), pytest.raises(AssertionError):
        produce(shared, topic, [b"no room"], give_up_ms=3000, ask=[led.number])
    for node in shared.nodes.values():
        if node.has_crashed():  # Apache Kafka stops when it cannot write
            node.kill()
            node.start()
    until_in_sync(shared, topic, set(NODES))
    produce(shared, topic, VALUES)
    found = read_all(shared, topic)
    assert found[: len(VALUES)] == VALUES and found[-len(VALUES) :] == VALUES
    assert set(found[len(VALUES) : -len(VALUES)]) <= {b"no room"}
