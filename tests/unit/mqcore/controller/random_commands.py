"""Anything that a cluster may be asked, sense or nonsense, for tests that try all of it; and how two images compare."""

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
    MorePartitions,
    NewTopic,
)
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage
from tests.unit.mqcore.controller.cast import edits

Wish = Callable[[Callable[[], UUID]], ControllerCommand | int]
"""Makes a command, given who makes up ids; a number: the broker of this number starts."""

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


def _create(wanted: list[tuple[str, int, int]], validate_only: bool, internal: bool) -> Wish:
    def wish(new_id: Callable[[], UUID]) -> ControllerCommand:
        topics = (NewTopic(name, new_id(), partitions, replicas) for name, partitions, replicas in wanted)
        return CreateTopics(tuple(topics), validate_only, internal)

    return wish


def _constant(command: ControllerCommand | int) -> Wish:
    return lambda new_id: command


wishes: st.SearchStrategy[Wish] = st.one_of(
    st.builds(_create, st.lists(st.tuples(names, small, small), max_size=3), st.booleans(), st.booleans()),
    st.lists(names, max_size=3).map(lambda gone: _constant(DeleteTopics(tuple((name, None) for name in gone)))),
    st.lists(st.builds(MorePartitions, names, small), max_size=3).map(
        lambda topics: _constant(CreatePartitions(tuple(topics)))
    ),
    st.lists(resources, max_size=3).map(lambda changed: _constant(AlterConfigs(tuple(changed)))),
    st.integers(1, 3).map(_constant),  # a broker starts
)


def seen(image: ClusterImage) -> object:
    """All of an image that anybody can see."""
    configs = {
        (kind, name): dict(image.configs(kind, name)) for kind in ResourceType for name in image.configured(kind)
    }
    return image.topics, image.topics_by_id, image.brokers, configs, image.next_producer_id, image.version
