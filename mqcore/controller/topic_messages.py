"""Codec: the topics that a broker itself creates ↔ a frame of CreateTopics 7, which travels in an Envelope."""

from __future__ import annotations

from typing import Final

from mqcore.controller.commands import CreatedTopic, CreateTopics
from mqcore.identity import NO_TOPIC_ID
from mqcore.wire.errors import Refusal, error_code
from mqcore.wire.frames import BadFrame, request_head, response_body_start
from mqcore.wire.messages import decode_response, encode_request

CREATE_TOPICS: Final = (19, 7)
CLIENT_ID: Final = "broker"


def encode_create(command: CreateTopics) -> bytes:
    """The ids are left out, because the controller makes its own."""
    topics = [
        {
            "name": topic.name,
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in topic.assignment],
            "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
        }
        for topic in command.topics
    ]
    body = encode_request(*CREATE_TOPICS, {"topics": topics, "validate_only": command.validate_only})
    return request_head(*CREATE_TOPICS, 0, CLIENT_ID) + body


def decode_created(response: bytes, command: CreateTopics) -> tuple[CreatedTopic | Refusal, ...]:
    """Raises `BadFrame` if the response does not name every topic."""
    start = response_body_start(*CREATE_TOPICS)
    decoded = decode_response(*CREATE_TOPICS, memoryview(response)[start:])
    outcomes: dict[str, CreatedTopic | Refusal] = {}
    for each in decoded.topics:
        if each.error_code:
            outcomes[each.name] = Refusal(error_code(each.error_code), each.error_message)
        else:
            topic_id = each.topic_id or NO_TOPIC_ID
            outcomes[each.name] = CreatedTopic(each.name, topic_id, each.num_partitions, each.replication_factor)
    try:
        return tuple(outcomes[topic.name] for topic in command.topics)
    except KeyError as missing:
        raise BadFrame(f"the response has no topic {missing}") from missing
