"""CreateTopics: create topics with partitions and settings, or only check that they could be created.

Versions: 2 is the first served. 4 makes the counts optional (KIP-464), 5 returns the settings (KIP-525), 7 the topic
id. Left out: quotas for creating topics (KIP-599, version 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from mqcore.apis.call import Api, Call, Later, Response
from mqcore.apis.controller_requests import EntryOutcome, error_of, message_of, submit
from mqcore.apis.services import Services
from mqcore.controller.commands import CreatedTopic, CreateTopics, NewTopic
from mqcore.controller.setting_layers import layers
from mqcore.identity import BrokerId
from mqcore.log.topic_config import TOPIC_SETTINGS

if TYPE_CHECKING:
    from mqcore.wire.requests.create_topics import CreatableTopic, CreateTopicsRequest

API = Api(19, "CreateTopics", 2, 7, forwarded=True)

RETURNS_CONFIGS = 5


def handle(request: CreateTopicsRequest, call: Call) -> Later:
    new_uuid = call.services.chance.new_uuid
    topics = tuple(_new_topic(topic, new_uuid()) for topic in request.topics)

    def respond(outcomes: Sequence[EntryOutcome]) -> Response:
        return {"topics": [_result(call, *pair) for pair in zip(topics, outcomes, strict=True)]}

    return submit(call, CreateTopics(topics, request.validate_only, internal=call.is_from_broker), len(topics), respond)


def _new_topic(topic: CreatableTopic, topic_id: UUID) -> NewTopic:
    return NewTopic(
        topic.name,
        topic_id,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(map(BrokerId, each.broker_ids))) for each in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _result(call: Call, topic: NewTopic, outcome: EntryOutcome) -> Response:
    result = {"name": topic.name, "error_code": error_of(outcome), "error_message": message_of(outcome)}
    if not isinstance(outcome, CreatedTopic):
        return result | {"configs": []}  # not null, because Java's client iterates over it even after an error
    return result | {
        "topic_id": outcome.topic_id,
        "num_partitions": outcome.partitions,
        "replication_factor": outcome.replication_factor,
        "configs": _configs(call.services, topic) if call.version >= RETURNS_CONFIGS else [],
    }


def _configs(services: Services, topic: NewTopic) -> list[Response]:
    """All settings of the topic, which may exist only in this request if it was validated and not created."""
    own = {name: value for name, value in topic.configs.items() if value is not None}
    effective = [
        (name, layers(setting, own, services.image, services.config.node_id, services.topic_defaults)[0])
        for name, setting in TOPIC_SETTINGS.items()
    ]
    return [{"name": name, "value": layer.value, "config_source": layer.source} for name, layer in effective]
