"""Machine: what must hold of every image of the cluster, whichever facts made it. Tests check it after each step."""

from __future__ import annotations

from mqcore.controller.config_changes import topic_config_refusal
from mqcore.controller.facts import ResourceType
from mqcore.controller.image import ClusterImage, PartitionImage
from mqcore.controller.topics import topic_name_error


def check_image(image: ClusterImage) -> None:
    assert {topic.id: topic for topic in image.topics.values()} == image.topics_by_id
    assert set(image.configured_resources(ResourceType.TOPIC)) <= set(image.topics), (
        "settings of a topic that does not exist"
    )
    for name, topic in image.topics.items():
        assert name == topic.name and topic_name_error(name) is None
        assert topic.configs == image.configs(ResourceType.TOPIC, name)
        assert topic_config_refusal(topic.configs) is None
        assert topic.partitions, f"{name} has no partitions"
        for index, partition in enumerate(topic.partitions):
            assert partition.index == index
            check_partition(image, partition)


def check_partition(image: ClusterImage, partition: PartitionImage) -> None:
    replicas = set(partition.replicas)
    assert partition.replicas and len(replicas) == len(partition.replicas)
    assert partition.isr and set(partition.isr) <= replicas and len(set(partition.isr)) == len(partition.isr)
    assert set(partition.removing) | set(partition.adding) <= replicas
    if partition.has_leader:
        assert partition.leader in partition.isr and image.is_active(partition.leader)
        inactive = [broker for broker in partition.isr if not image.is_active(broker)]
        assert not inactive, f"brokers {inactive} are in sync although they are not active"
    else:
        assert not any(map(image.is_active, partition.isr)), "an active in-sync replica leads"
