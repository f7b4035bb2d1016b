"""Metadata: who the brokers are and who leads what; makes a topic on the way if it may."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.operations import EVERYTHING_WITH_A_TOPIC, EVERYTHING_WITH_THE_CLUSTER, NOT_ASKED
from mqcore.apis.services import Services
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.controller.image import INTERNAL_TOPICS, TopicImage
from mqcore.controller.topics import wrong_name
from mqcore.identity import TopicPartition
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.hot import Piece
from mqcore.wire.messages import encode_response

API = Api(3, "Metadata", 0, 13)

NAMELESS = 12

MOST_AUTO_CREATED = 100  # of one request; the rest has to ask again


MOST_KEPT_ANSWERS = 8


def encode(version: int, response: Response | bytes) -> list[Piece]:
    return [response if isinstance(response, bytes) else encode_response(API.key, version, response)]


def handle(request: Any, call: Call) -> Response | bytes | Later:
    if (call.version == 0 and not request.topics) or request.topics is None:
        return _all_topics(request, call)
    missing = _to_create(request, call)
    if not missing:
        return _described(request, call, {})
    if "__consumer_offsets" in missing:
        call.services.ensure_offsets_topic(lambda error: _answer(request, call, {"__consumer_offsets": error}))
        return LATER
    command = CreateTopics(tuple(NewTopic(name, uuid4()) for name in missing))

    def created(answer: object) -> None:
        errors = dict.fromkeys(missing, ErrorCode.LEADER_NOT_AVAILABLE)
        if isinstance(answer, tuple):
            for name, result in zip(missing, answer, strict=True):
                errors[name] = result.error if isinstance(result, Refusal) else ErrorCode.NONE
        _answer(request, call, errors)

    call.services.controller.submit(command, created)
    return LATER


def _all_topics(request: Any, call: Call) -> bytes:
    """Encoded, and kept until something changes: it takes tens of milliseconds to make when there are thousands of
    partitions, and all clients ask for the same."""
    services = call.services
    unavailable = [partition.name for partition in services.partitions if partition.offline is not None]
    state = (services.image.version, tuple(services.partitions.offline), tuple(unavailable))
    kept = services.all_topics
    if kept.state != state or len(kept.encoded) >= MOST_KEPT_ANSWERS:
        kept.state = state
        kept.encoded.clear()
    of_topics = bool(request.include_topic_authorized_operations)
    key = (call.version, call.listener, of_topics, bool(request.include_cluster_authorized_operations))
    if key not in kept.encoded:
        topics = [_describe(services, topic) for topic in services.image.topics.values()]
        kept.encoded[key] = encode_response(API.key, call.version, _response(request, call, topics))
    return kept.encoded[key]


def _to_create(request: Any, call: Call) -> list[str]:
    services = call.services
    if not services.config.auto_create_topics_enable or (call.version >= 4 and not request.allow_auto_topic_creation):
        return []
    names = dict.fromkeys(wanted.name for wanted in request.topics if wanted.name and wanted.topic_id is None)
    absent = [name for name in names if name not in services.image.topics and wrong_name(name) is None]
    allowed = [name for name in absent if name not in INTERNAL_TOPICS or name == "__consumer_offsets"]
    return allowed[:MOST_AUTO_CREATED]


def _answer(request: Any, call: Call, errors: dict[str, ErrorCode]) -> None:
    call.answer(_described(request, call, errors))


def _described(request: Any, call: Call, errors: dict[str, ErrorCode]) -> Response:
    """Each topic once, however often it was asked for: a small request must not make a huge answer."""
    wanted = {(topic.name, topic.topic_id): topic for topic in request.topics}
    return _response(request, call, [_named(call, topic, errors) for topic in wanted.values()])


def _named(call: Call, wanted: Any, errors: dict[str, ErrorCode]) -> Response:
    """One topic that was asked for, by name or (from version 12) by id."""
    image = call.services.image
    if wanted.topic_id is not None or wanted.name is None:  # with an id Java's client sends an empty name, not null
        topic = image.topics_by_id.get(wanted.topic_id)
        if topic is None:
            name = None if call.version >= NAMELESS else ""  # before, an answer had to have a name
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": name, "topic_id": wanted.topic_id}
        return _describe(call.services, topic)
    topic = image.topics.get(wanted.name)
    if topic is not None:
        return _describe(call.services, topic)
    error = errors.get(wanted.name, ErrorCode.NONE)
    if wrong_name(wanted.name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": error, "name": wanted.name}


def _describe(services: Services, topic: TopicImage) -> Response:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": _partition_error(services, topic.name, partition.index),
                "partition_index": partition.index,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.isr,
                "offline_replicas": _offline(services, topic.name, partition.index),
            }
            for partition in topic.partitions
        ],
    }


def _partition_error(services: Services, topic: str, index: int) -> ErrorCode:
    offline = bool(_offline(services, topic, index))
    return ErrorCode.LEADER_NOT_AVAILABLE if offline else ErrorCode.NONE


def _offline(services: Services, topic: str, index: int) -> tuple[int, ...]:
    """This broker's copy, if its log cannot be served."""
    partition = services.partitions.get(topic, index)
    gone = TopicPartition(topic, index) in services.partitions.offline
    if gone or (partition is not None and partition.offline is not None):
        return (services.config.node_id,)
    return ()


def _response(request: Any, call: Call, topics: list[Response]) -> Response:
    services = call.services
    if request.include_topic_authorized_operations:
        allowed = {"topic_authorized_operations": EVERYTHING_WITH_A_TOPIC}
        topics = [topic if topic.get("error_code") else {**topic, **allowed} for topic in topics]
    of_cluster = EVERYTHING_WITH_THE_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = services.endpoint(broker.broker, call.listener)
        if endpoint is not None:
            brokers.append({"node_id": broker.broker, "host": endpoint[0], "port": endpoint[1], "rack": broker.rack})
    return {
        "brokers": brokers,
        "cluster_id": services.cluster_id,
        "controller_id": services.config.node_id,
        "topics": topics,
        "cluster_authorized_operations": of_cluster,
    }
