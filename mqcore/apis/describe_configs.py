"""DescribeConfigs: every setting of a topic or broker, its value, and where the value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqcore.apis.asking import error_of, message_of
from mqcore.apis.call import Api, Call, Response
from mqcore.apis.services import Services
from mqcore.config import settings
from mqcore.controller.facts import ResourceType
from mqcore.controller.kept_settings import BROKER_KEPT
from mqcore.controller.settings import (
    BROKER_SYNONYMS,
    DEFAULT_RESOURCE,
    DYNAMIC_BROKER,
    ConfigSource,
    Layer,
    Setting,
    file_layers,
    kept_layers,
    layers,
)
from mqcore.controller.topics import wrong_name
from mqcore.log.config import TOPIC_SETTINGS, SettingType
from mqcore.wire.errors import ErrorCode, Refusal

API = Api(32, "DescribeConfigs", 1, 4)

_BROKER_TYPES = {"bool": SettingType.BOOLEAN, "int": SettingType.LONG, "str": SettingType.STRING}


def handle(request: Any, call: Call) -> Response:
    # Each resource once, however often it was asked for: a small request must not make a huge answer.
    resources = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return {"results": [_result(call.services, request, resource) for resource in resources.values()]}


def _result(services: Services, request: Any, resource: Any) -> Response:
    found = _describe(services, resource.resource_type, resource.resource_name)
    result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    if isinstance(found, Refusal):
        return result | {"error_code": error_of(found), "error_message": message_of(found), "configs": []}
    wanted = frozenset(resource.configuration_keys or ())
    configs = [_config(request, *each) for each in found if not wanted or each[0].name in wanted]
    return result | {"error_code": ErrorCode.NONE, "error_message": None, "configs": configs}


def _config(request: Any, setting: Setting, found: Sequence[Layer]) -> Response:
    synonyms = [{"name": layer.name, "value": layer.value, "source": layer.source} for layer in found]
    return {
        "name": setting.name,
        "value": found[0].value,
        "read_only": setting.read_only,
        "config_source": found[0].source,
        "synonyms": synonyms if request.include_synonyms else [],
        "config_type": setting.type,
        "documentation": setting.documentation if request.include_documentation else None,
    }


Found = list[tuple[Setting, list[Layer]]]


def _describe(services: Services, resource_type: int, name: str) -> Found | Refusal:
    match resource_type:
        case ResourceType.TOPIC:
            return _topic(services, name)
        case ResourceType.BROKER:
            return _cluster_default(services) if name == DEFAULT_RESOURCE else _broker(services, name)
        case ResourceType.BROKER_LOGGER:
            return _wrong_broker(services, name) or []  # log levels are not settings here
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return []
        case _:
            return Refusal(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource_type}")


def _topic(services: Services, name: str) -> Found | Refusal:
    topic = services.image.topics.get(name)
    if topic is None:
        wrong = wrong_name(name)
        if wrong:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
    return [
        (Setting(row.name, row.type, False, row.documentation), _layers(services, row.name, topic.configs))
        for row in TOPIC_SETTINGS.values()
    ]


def _broker(services: Services, name: str) -> Found | Refusal:
    """What the file says, read once at the start; and the defaults of topics, which can be changed."""
    wrong = _wrong_broker(services, name)
    if wrong is not None:
        return wrong
    found: Found = []
    own = settings()
    for kafka_name, spec in own.items():
        if kafka_name not in BROKER_KEPT:
            setting = Setting(kafka_name, _BROKER_TYPES[str(spec.type)], True, spec.metadata["doc"])
            found.append((setting, file_layers(services.config, kafka_name, spec)))
    for kept in BROKER_KEPT.values():
        field = own.get(kept.name)
        file = [] if field is None else file_layers(services.config, kept.name, field)
        setting = Setting(kept.name, kept.type, False, kept.documentation)
        found.append((setting, kept_layers(kept, file, services.image, services.config.node_id)))
    for synonym, row in BROKER_SYNONYMS.items():
        found.append((Setting(synonym, row.type, False, row.documentation), _layers(services, row.name, {})))
    return found


def _cluster_default(services: Services) -> Found:
    """Only what has been set for all brokers together."""
    return [
        (
            Setting(name, DYNAMIC_BROKER[name].type, False, DYNAMIC_BROKER[name].documentation),
            [Layer(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)],
        )
        for name, value in services.image.configs(ResourceType.BROKER, DEFAULT_RESOURCE).items()
    ]


def _layers(services: Services, topic_setting: str, configs: Any) -> list[Layer]:
    node = services.config.node_id
    return layers(TOPIC_SETTINGS[topic_setting], configs, services.image, node, services.topic_defaults)


def _wrong_broker(services: Services, name: str) -> Refusal | None:
    """A broker knows its own settings only."""
    if name == str(services.config.node_id):
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"this is broker {services.config.node_id}: ask it for no other")
