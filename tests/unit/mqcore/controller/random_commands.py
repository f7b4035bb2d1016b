"""Random commands for a cluster, valid and invalid ones; and the part of an image by which two are compared."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from hypothesis import strategies as st

from mqcore.controller.commands import (
    AlterConfigs,
    ControllerCommand,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionIncrease,
)
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from tests.unit.mqcore.controller.cluster_driver import edits

RandomCommand = Callable[[Callable[[], UUID]], ControllerCommand | int]
"""Makes a command, given a source of new ids. A number stands for the start of the broker with that id."""

names = st.sampled_from(["a", "b", "a.b", "a_b", "c", "__consumer_offsets", "no name"])
small = st.integers(-2, 4)
changes = st.tuples(
    st.sampled_from(["retention.ms", "cleanup.policy", "log.retention.ms", "nope"]),
    st.integers(-1, 4),
    st.sampled_from([None, "1", "compact", "delete", "x"]),
)
resources = st.builds(
    lambda kind, name, change, replace: edits(name, *change, kind=kind, replace_all=replace),
    st.sampled_from([ResourceType.TOPIC, ResourceType.BROKER, 99]),
    names | st.sampled_from(["", "1", "2"]),
    st.lists(changes, max_size=3),
    st.booleans(),
)


def _create(wanted: list[tuple[str, int, int]], validate_only: bool, internal: bool) -> RandomCommand:
    def make_command(new_id: Callable[[], UUID]) -> ControllerCommand:
        topics = (NewTopic(name, new_id(), partitions, replicas) for name, partitions, replicas in wanted)
        return CreateTopics(tuple(topics), validate_only, internal)

    return make_command


def _constant(command: ControllerCommand | int) -> RandomCommand:
    return lambda new_id: command


random_commands: st.SearchStrategy[RandomCommand] = st.one_of(
    st.builds(_create, st.lists(st.tuples(names, small, small), max_size=3), st.booleans(), st.booleans()),
    st.lists(names, max_size=3).map(lambda gone: _constant(DeleteTopics(tuple((name, None) for name in gone)))),
    st.lists(st.builds(PartitionIncrease, names, small, st.none()), max_size=3).map(
        lambda topics: _constant(CreatePartitions(tuple(topics)))
    ),
    st.lists(resources, max_size=3).map(lambda changed: _constant(AlterConfigs(tuple(changed)))),
    st.integers(1, 3).map(_constant),  # a broker starts
)


def visible_state(image: ClusterImage) -> object:
    """Everything in an image that its readers can see."""
    return cluster_state(image), image.version


def cluster_state(image: ClusterImage) -> object:
    """What the image says of the cluster, however many facts said it."""
    configs = {
        (kind, name): dict(image.configs(kind, name))
        for kind in ResourceType
        for name in image.configured_resources(kind)
    }
    return image.topics, image.topics_by_id, image.brokers, configs, image.next_producer_id, image.features
