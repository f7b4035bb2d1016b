"""Metadata: the brokers, the topics and the leaders of their partitions. May create topics that do not exist.

Versions: in 0 an empty list means all topics, from 1 a null list does. 4 lets the client forbid the creation, 7 adds
leader epochs, 8 authorized operations, 10 topic ids in the response; 12 allows requests by id, 13 adds an error code
for the whole response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.call import LATER, Api, Call, Later, Response
from mqcore.apis.lookup import offline_replicas
from mqcore.apis.operations import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, NOT_REQUESTED
from mqcore.apis.services import Services
from mqcore.apis.unique import unique_by
from mqcore.controller.commands import CreateTopics, NewTopic
from mqcore.controller.image import PartitionImage, TopicImage
from mqcore.controller.topics import topic_name_error
from mqcore.identity import INTERNAL_TOPICS
from mqcore.wire.errors import ErrorCode, Refusal
from mqcore.wire.fast_primitives import Piece
from mqcore.wire.messages import encode_response

if TYPE_CHECKING:
    from mqcore.wire.requests.metadata import MetadataRequest, MetadataRequestTopic

API = Api(3, "Metadata", 0, 13)

MAY_FORBID_CREATION = 4
NULLABLE_NAME = 12

AUTO_CREATED_TOPICS_MAX = 100
"""Of one request; the client gets the rest with its next request."""

CACHED_RESPONSES_MAX = 8


def encode(version: int, response: Response | bytes) -> list[Piece]:
    return [response if isinstance(response, bytes) else encode_response(API.key, version, response)]


def handle(request: MetadataRequest, call: Call) -> Response | bytes | Later:
    if request.topics is None or (call.version == 0 and not request.topics):
        return _all_topics(request, call)
    to_create = _topics_to_create(request, call)
    if not to_create:
        return _requested_topics(request, call, {})
    internal_topics = call.services.internal_topics
    internal = next((name for name in to_create if name in internal_topics), None)
    if internal is not None:
        internal_topics.ensure(internal, lambda error: call.answer(_requested_topics(request, call, {internal: error})))
        return LATER
    new_uuid = call.services.chance.new_uuid

    def created(answer: object) -> None:
        errors = dict.fromkeys(to_create, ErrorCode.LEADER_NOT_AVAILABLE)
        if isinstance(answer, tuple):
            for name, outcome in zip(to_create, answer, strict=True):
                errors[name] = outcome.error if isinstance(outcome, Refusal) else ErrorCode.NONE
        call.answer(_requested_topics(request, call, errors))

    call.services.controller.submit(CreateTopics(tuple(NewTopic(name, new_uuid()) for name in to_create)), created)
    return LATER


def _all_topics(request: MetadataRequest, call: Call) -> bytes:
    """The encoded response, cached until the metadata changes. With thousands of partitions it takes tens of
    milliseconds to build, and all clients request the same one."""
    services = call.services
    offline = [partition.name for partition in services.partitions if partition.is_offline]
    state = (services.image.version, frozenset(services.partitions.open_failures), tuple(offline))
    cache = services.all_topics
    if cache.state != state or len(cache.encoded) >= CACHED_RESPONSES_MAX:
        cache.state = state
        cache.encoded.clear()
    include_topics = request.include_topic_authorized_operations
    key = (
        call.version,
        call.listener,
        services.controller_id(),
        include_topics,
        request.include_cluster_authorized_operations,
    )
    if key not in cache.encoded:
        topics = [_topic(services, topic) for topic in services.image.topics.values()]
        cache.encoded[key] = encode_response(API.key, call.version, _response(request, call, topics))
    return cache.encoded[key]


def _topics_to_create(request: MetadataRequest, call: Call) -> list[str]:
    services = call.services
    if not services.config.auto_create_topics_enable:
        return []
    if call.version >= MAY_FORBID_CREATION and not request.allow_auto_topic_creation:
        return []
    names = dict.fromkeys(wanted.name for wanted in request.topics or () if wanted.name and wanted.topic_id is None)
    missing = [name for name in names if name not in services.image.topics and topic_name_error(name) is None]
    allowed = [name for name in missing if name not in INTERNAL_TOPICS or name in services.internal_topics]
    return allowed[:AUTO_CREATED_TOPICS_MAX]


def _requested_topics(request: MetadataRequest, call: Call, errors: dict[str, ErrorCode]) -> Response:
    wanted = unique_by(request.topics or (), lambda topic: (topic.name, topic.topic_id))
    return _response(request, call, [_requested_topic(call, topic, errors) for topic in wanted])


def _requested_topic(call: Call, wanted: MetadataRequestTopic, errors: dict[str, ErrorCode]) -> Response:
    image = call.services.image
    if wanted.topic_id is not None or wanted.name is None:  # with an id, Java's client sends an empty name, not null
        topic = image.topics_by_id.get(wanted.topic_id) if wanted.topic_id is not None else None
        if topic is None:
            name = None if call.version >= NULLABLE_NAME else ""
            return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": name, "topic_id": wanted.topic_id}
        return _topic(call.services, topic)
    topic = image.topics.get(wanted.name)
    if topic is not None:
        return _topic(call.services, topic)
    error = errors.get(wanted.name, ErrorCode.NONE)
    if topic_name_error(wanted.name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {"error_code": error, "name": wanted.name}


def _topic(services: Services, topic: TopicImage) -> Response:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(services, topic.name, partition) for partition in topic.partitions],
    }


def _partition(services: Services, topic: str, partition: PartitionImage) -> Response:
    offline = offline_replicas(services, topic, partition)
    has_leader = partition.has_leader and partition.leader not in offline
    return {
        "error_code": ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": partition.index,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": offline,
    }


def _response(request: MetadataRequest, call: Call, topics: list[Response]) -> Response:
    services = call.services
    if request.include_topic_authorized_operations:
        allowed = {"topic_authorized_operations": ALL_TOPIC_OPERATIONS}
        topics = [topic if topic.get("error_code") else {**topic, **allowed} for topic in topics]
    include_cluster = request.include_cluster_authorized_operations
    brokers = []
    for broker in services.image.brokers.values():
        endpoint = services.endpoint(broker.broker, call.listener)
        if endpoint is not None and not broker.fenced:
            brokers.append({"node_id": broker.broker, "host": endpoint[0], "port": endpoint[1], "rack": broker.rack})
    return {
        "brokers": brokers,
        "cluster_id": services.cluster_id,
        "controller_id": services.controller_id(),
        "topics": topics,
        "cluster_authorized_operations": ALL_CLUSTER_OPERATIONS if include_cluster else NOT_REQUESTED,
    }
