"""What a new controller does first, and the settings that belong to the whole cluster."""

from __future__ import annotations

import pytest

from mqcore.controller.cluster_commands import Activate
from mqcore.controller.commands import Alteration
from mqcore.controller.facts import ConfigChanged, FeatureLevelSet, ResourceType
from mqcore.controller.setting_layers import ConfigSource, cluster_value, effective_settings, layers
from mqcore.identity import Offset
from mqcore.log.topic_config import TOPIC_SETTINGS
from mqcore.wire.errors import ErrorCode
from tests.unit.mqcore.controller.cluster_driver import Cluster, alter, edits, set_to

MIN_ISR = "min.insync.replicas"
BROKER = ResourceType.BROKER


def activate(cluster: Cluster, epoch: int, min_isr: str | None = None, **features: int) -> None:
    command = Activate(epoch, cluster.machine.sessions.next_offset, features, min_isr)
    assert cluster.ask(command) == ()


def test_the_first_controller_gives_a_new_cluster_its_feature_levels_and_its_min_isr() -> None:
    cluster = Cluster(brokers=0)
    activate(cluster, 1, "2", group=1)
    assert cluster.facts == [FeatureLevelSet("group", 1), ConfigChanged(BROKER, "", MIN_ISR, "2")]


def test_a_later_controller_changes_neither_although_its_file_differs() -> None:
    cluster = Cluster(brokers=0)
    activate(cluster, 1, "2", group=1)
    activate(cluster, 2, "1", group=2, share=1)
    assert cluster.image.features == {"group": 1, "share": 1}
    assert cluster.image.configs(BROKER, "") == {MIN_ISR: "2"}


def test_a_single_broker_without_the_setting_writes_nothing_at_its_activation() -> None:
    cluster = Cluster(brokers=0)
    activate(cluster, 0)
    assert cluster.facts == []


def test_the_next_record_goes_where_the_activation_says() -> None:
    cluster = Cluster(brokers=0)
    cluster.ask(Activate(1, Offset(40)))
    cluster.register(1)
    assert cluster.image.brokers[next(iter(cluster.image.brokers))].broker_epoch == 40


# min.insync.replicas: controller and leader must agree about it (trap 13)


def with_min_isr_2() -> Cluster:
    cluster = Cluster()
    cluster.create("orders")
    activate(cluster, 1, "2")
    return cluster


cluster = pytest.fixture(with_min_isr_2, name="cluster")


def min_isr(cluster: Cluster, file: dict[str, str]) -> tuple[str, str]:
    """What a broker with this file uses, and what the controller uses."""
    configs = cluster.image.topics["orders"].configs
    used = effective_settings(configs, cluster.image, 1, file).get(MIN_ISR, "1")
    (first, *_) = layers(TOPIC_SETTINGS[MIN_ISR], configs, cluster.image, 1, file)
    assert first.value == used, "what is described is what is used"
    return used, cluster_value(cluster.image, configs, MIN_ISR)


@pytest.mark.parametrize("file", [{}, {MIN_ISR: "1"}, {MIN_ISR: "3"}])
def test_the_file_of_a_broker_does_not_change_min_isr(cluster: Cluster, file: dict[str, str]) -> None:
    assert min_isr(cluster, file) == ("2", "2")


def test_min_isr_changes_for_all_brokers_at_once_and_a_topic_may_have_its_own(cluster: Cluster) -> None:
    cluster.submit(alter(edits("", set_to(MIN_ISR, "3"), kind=BROKER)))
    assert min_isr(cluster, {MIN_ISR: "1"}) == ("3", "3")
    cluster.submit(alter(edits("orders", set_to(MIN_ISR, "1"))))
    assert min_isr(cluster, {MIN_ISR: "2"}) == ("1", "1")


def test_min_isr_cannot_be_set_for_one_broker(cluster: Cluster) -> None:
    assert cluster.errors(alter(edits("1", set_to(MIN_ISR, "1"), kind=BROKER))) == [ErrorCode.INVALID_CONFIG]


def test_a_value_for_one_broker_from_an_older_version_does_not_count(cluster: Cluster) -> None:
    cluster.machine.apply(ConfigChanged(BROKER, "1", MIN_ISR, "1"))
    assert min_isr(cluster, {}) == ("2", "2")
    remove = (MIN_ISR, Alteration.DELETE, None)
    assert cluster.errors(alter(edits("1", remove, kind=BROKER))) == [ErrorCode.NONE]
    assert not cluster.image.configs(BROKER, "1")


@pytest.mark.parametrize("replace_all", [False, True])
def test_the_min_isr_of_the_cluster_cannot_be_removed(cluster: Cluster, replace_all: bool) -> None:
    """The file of the next controller would set it again, perhaps to another value."""
    changes = () if replace_all else ((MIN_ISR, Alteration.DELETE, None),)
    removal = alter(edits("", *changes, kind=BROKER, replace_all=replace_all))
    assert cluster.errors(removal) == [ErrorCode.INVALID_CONFIG]
    assert min_isr(cluster, {}) == ("2", "2")


def test_other_settings_of_a_broker_still_count_for_its_topics(cluster: Cluster) -> None:
    cluster.submit(alter(edits("1", set_to("log.retention.ms", "5"), kind=BROKER)))
    found = layers(TOPIC_SETTINGS["retention.ms"], {}, cluster.image, 1, {"retention.ms": "6"})
    assert [(layer.value, layer.source) for layer in found[:2]] == [
        ("5", ConfigSource.DYNAMIC_BROKER),
        ("6", ConfigSource.STATIC_BROKER),
    ]
