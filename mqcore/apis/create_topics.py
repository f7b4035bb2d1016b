"""CreateTopics: new topics with their partitions and settings, or a check whether they could be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from mqcore.apis.asking import Entry, ask, error_of, message_of
from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.services import Services
from mqcore.controller.commands import CreateTopics, NewTopic, TopicMade
from mqcore.controller.settings import layers
from mqcore.identity import BrokerId
from mqcore.log.config import TOPIC_SETTINGS

API = Api(19, "CreateTopics", 2, 7)


def handle(request: Any, call: Call) -> Later:
    topics = tuple(map(_new_topic, request.topics))

    def respond(entries: Sequence[Entry]) -> Response:
        return {"topics": [_result(call, *pair) for pair in zip(topics, entries, strict=True)]}

    return ask(call, CreateTopics(topics, request.validate_only), len(topics), respond)


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        uuid4(),
        topic.num_partitions,
        topic.replication_factor,
        tuple((entry.partition_index, tuple(map(BrokerId, entry.broker_ids))) for entry in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _result(call: Call, topic: NewTopic, entry: Entry) -> Response:
    result = {"name": topic.name, "error_code": error_of(entry), "error_message": message_of(entry)}
    if not isinstance(entry, TopicMade):
        return result | {"configs": []}  # Java iterates over it, errors included
    return result | {
        "topic_id": entry.topic_id,
        "num_partitions": entry.partitions,
        "replication_factor": entry.replication_factor,
        "configs": _configs(call.services, topic) if call.version >= 5 else [],
    }


def _configs(services: Services, topic: NewTopic) -> list[Response]:
    """All settings of the topic, also of one that was only checked."""
    own = {name: value for name, value in topic.configs.items() if value is not None}
    first = [
        (name, layers(setting, own, services.image, services.config.node_id, services.topic_defaults)[0])
        for name, setting in TOPIC_SETTINGS.items()
    ]
    return [{"name": name, "value": layer.value, "config_source": layer.source} for name, layer in first]
