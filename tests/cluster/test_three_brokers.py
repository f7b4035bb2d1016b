"""Three real brokers, one of which dies: clients of another library lose nothing and hardly notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seckill.stack.broker_cluster import BrokerCluster
from seckill.stack.broker_process import BrokerFault
from seckill.stack.child_processes import wait_until
from tests.cluster.watching import (
    PATIENCE_S,
    admin_of,
    controller,
    leaders,
    live_brokers,
    make_topic,
    produce,
    read_all,
    until_adopted,
    until_in_sync,
    until_led,
)

VALUES = [f"record {number}".encode() for number in range(200)]

pytestmark = pytest.mark.timeout(180)


def test_three_brokers_form_a_cluster_and_copy_every_partition(whole_cluster: BrokerCluster, topic: str) -> None:
    make_topic(whole_cluster, topic)
    assert live_brokers(whole_cluster) == {1, 2, 3}
    until_in_sync(whole_cluster, topic, {1, 2, 3})
    assert set(leaders(whole_cluster, topic).values()) == {1, 2, 3}, "leadership is shared"
    assert produce(whole_cluster, topic, VALUES) == list(range(200))
    assert read_all(whole_cluster, topic) == VALUES


def test_the_death_of_a_leader_loses_no_acknowledged_record(whole_cluster: BrokerCluster, topic: str) -> None:
    make_topic(whole_cluster, topic, partitions=1)
    produce(whole_cluster, topic, VALUES)
    leader = whole_cluster.nodes[leaders(whole_cluster, topic)[0]]
    leader.kill()
    until_led(whole_cluster, topic, without=leader)
    produce(whole_cluster, topic, VALUES)
    assert read_all(whole_cluster, topic) == VALUES * 2
    leader.start()
    until_in_sync(whole_cluster, topic, {1, 2, 3})
    assert read_all(whole_cluster, topic) == VALUES * 2


def test_topics_are_created_again_soon_after_the_controller_dies(whole_cluster: BrokerCluster, topic: str) -> None:
    active = whole_cluster.nodes[controller(whole_cluster)]
    active.kill()
    make_topic(whole_cluster, topic)
    until_led(whole_cluster, topic, without=active)
    produce(whole_cluster, topic, VALUES)
    active.start()
    until_in_sync(whole_cluster, topic, {1, 2, 3})


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_broker_takes_the_requests_that_only_the_controller_can_answer(
    whole_cluster: BrokerCluster, topic: str, number: int
) -> None:
    """The client knows one broker only. It sends to whichever broker the metadata names as controller."""
    admin = AdminClient({"bootstrap.servers": whole_cluster.nodes[number].address, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(PATIENCE_S)
    assert topic in admin.list_topics(timeout=10).topics


def test_committed_offsets_survive_the_death_of_their_coordinator(whole_cluster: BrokerCluster, topic: str) -> None:
    make_topic(whole_cluster, topic, partitions=1)
    produce(whole_cluster, topic, VALUES)
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": whole_cluster.address, "log_level": 0}
    groups = [f"{topic}-{number}" for number in range(6)]
    for number, group in enumerate(groups):
        consumer = Consumer({**settings, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)
        consumer.close()
    for node in whole_cluster.nodes.values():
        node.kill()
        until_led(whole_cluster, "__consumer_offsets", without=node)
        for number, group in enumerate(groups):
            consumer = Consumer({**settings, "group.id": group})
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
            consumer.close()
            assert found.offset == number, f"{group} after the death of node {node.number}"
        node.start()
        until_in_sync(whole_cluster, "__consumer_offsets", {1, 2, 3})


def test_a_cluster_that_lost_all_its_processes_at_once_has_lost_nothing(
    new_cluster: Callable[..., BrokerCluster], topic: str
) -> None:
    cluster = new_cluster().start()
    make_topic(cluster, topic)
    produce(cluster, topic, VALUES)
    cluster.kill()
    cluster.start()
    assert read_all(cluster, topic) == VALUES


def test_two_dead_brokers_of_three_stop_writing_but_lose_nothing(
    new_cluster: Callable[..., BrokerCluster], topic: str
) -> None:
    cluster = new_cluster().start()
    make_topic(cluster, topic, partitions=1)
    produce(cluster, topic, VALUES)
    others = [node for node in cluster.nodes.values() if node.number != leaders(cluster, topic)[0]]
    for node in others:
        node.kill()
    with pytest.raises(KafkaException):
        short = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0, "socket.timeout.ms": 3000})
        short.create_topics([NewTopic(f"{topic}-more", 1, 1)], operation_timeout=2)[f"{topic}-more"].result(5)
    for node in others:
        node.start()
    until_in_sync(cluster, topic, {1, 2, 3})
    produce(cluster, topic, VALUES)
    assert read_all(cluster, topic) == VALUES * 2


def test_brokers_are_restarted_one_after_the_other_without_an_error_for_producers(
    whole_cluster: BrokerCluster, topic: str
) -> None:
    make_topic(whole_cluster, topic)
    for node in whole_cluster.nodes.values():
        produce(whole_cluster, topic, VALUES)
        assert node.stop() == 0
        produce(whole_cluster, topic, VALUES)
        node.start()
        until_in_sync(whole_cluster, topic, {1, 2, 3})
    assert read_all(whole_cluster, topic) == VALUES * 6


def test_a_broker_whose_disk_was_lost_copies_everything_again(
    new_cluster: Callable[..., BrokerCluster], topic: str
) -> None:
    cluster = new_cluster().start()
    make_topic(cluster, topic)
    produce(cluster, topic, VALUES)
    wiped = cluster.nodes[3]
    wiped.kill()
    shutil.rmtree(wiped.data)
    wiped.format(founder=False)
    wiped.start()
    until_in_sync(cluster, topic, {1, 2, 3})
    until_adopted(cluster, wiped)  # until then only two of the three can vote
    cluster.nodes[1].kill()
    until_led(cluster, topic, without=cluster.nodes[1])
    assert read_all(cluster, topic) == VALUES


def test_a_broker_without_a_formatted_folder_does_not_start(new_cluster: Callable[..., BrokerCluster]) -> None:
    node = new_cluster().nodes[1]
    with pytest.raises(BrokerFault, match="mqcore format"):
        node.start()


def test_new_settings_reach_every_broker(whole_cluster: BrokerCluster, topic: str) -> None:
    """A topic that wants three in-sync replicas refuses acks=all once one broker is gone."""
    make_topic(whole_cluster, topic, partitions=1, min_insync_replicas="3")
    produce(whole_cluster, topic, VALUES)
    node = whole_cluster.nodes[({1, 2, 3} - {leaders(whole_cluster, topic)[0]}).pop()]
    node.kill()
    until_in_sync(whole_cluster, topic, {1, 2, 3} - {node.number})
    with pytest.raises(AssertionError, match="NOT_ENOUGH_REPLICAS|MSG_TIMED_OUT"):
        produce(whole_cluster, topic, VALUES, give_up_ms=5000)
    node.start()
    wait_until(lambda: live_brokers(whole_cluster) == {1, 2, 3}, "the broker to return", PATIENCE_S)
    admin = admin_of(whole_cluster)
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
