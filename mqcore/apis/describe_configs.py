"""DescribeConfigs: the settings of a topic or broker, their values, and where each value comes from.

Versions: 1 adds the source and the synonyms of a value, 3 the type and the documentation.
Left out: client metrics and groups have no settings, and log levels cannot be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mqcore.apis.call import Api, Call, Response
from mqcore.apis.controller_requests import error_of, message_of
from mqcore.apis.services import Services
from mqcore.apis.unique import unique_by
from mqcore.config import settings
from mqcore.controller.facts import ResourceType
from mqcore.controller.setting_layers import (
    BROKER_SYNONYMS,
    DEFAULT_RESOURCE,
    DYNAMIC_BROKER,
    ConfigSource,
    Layer,
    Setting,
    file_layers,
    layers,
    layers_without_effect,
)
from mqcore.controller.settings_without_effect import SETTINGS_WITHOUT_EFFECT
from mqcore.controller.topics import topic_name_error
from mqcore.log.setting_types import SettingType
from mqcore.log.topic_config import TOPIC_SETTINGS
from mqcore.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from mqcore.wire.requests.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

API = Api(32, "DescribeConfigs", 1, 4)

_BROKER_TYPES = {"bool": SettingType.BOOLEAN, "int": SettingType.LONG, "str": SettingType.STRING}


def handle(request: DescribeConfigsRequest, call: Call) -> Response:
    resources = unique_by(request.resources, lambda resource: (resource.resource_type, resource.resource_name))
    return {"results": [_result(call.services, request, resource) for resource in resources]}


def _result(services: Services, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> Response:
    found = _describe(services, resource.resource_type, resource.resource_name)
    result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    if isinstance(found, Refusal):
        return result | {"error_code": error_of(found), "error_message": message_of(found), "configs": []}
    wanted = frozenset(resource.configuration_keys or ())
    configs = [_config(request, *each) for each in found if not wanted or each[0].name in wanted]
    return result | {"error_code": ErrorCode.NONE, "error_message": None, "configs": configs}


def _config(request: DescribeConfigsRequest, setting: Setting, found: Sequence[Layer]) -> Response:
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
            return _refuse_other_broker(services, name) or []
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return []
        case _:
            return Refusal(ErrorCode.INVALID_REQUEST, f"unknown resource type {resource_type}")


def _topic(services: Services, name: str) -> Found | Refusal:
    topic = services.image.topics.get(name)
    if topic is None:
        wrong = topic_name_error(name)
        if wrong:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
    return [
        (Setting(row.name, row.type, False, row.documentation), _layers(services, row.name, topic.configs))
        for row in TOPIC_SETTINGS.values()
    ]


def _broker(services: Services, name: str) -> Found | Refusal:
    """The settings of the configuration file, which is read once at startup, and the topic defaults, which can be
    changed while the broker runs."""
    refusal = _refuse_other_broker(services, name)
    if refusal is not None:
        return refusal
    found: Found = []
    own = settings()
    for kafka_name, spec in own.items():
        if kafka_name not in SETTINGS_WITHOUT_EFFECT:
            setting = Setting(kafka_name, _BROKER_TYPES[str(spec.type)], True, spec.metadata["doc"])
            found.append((setting, file_layers(services.config, kafka_name, spec)))
    for kept in SETTINGS_WITHOUT_EFFECT.values():
        field = own.get(kept.name)
        file = [] if field is None else file_layers(services.config, kept.name, field)
        setting = Setting(kept.name, kept.type, False, kept.documentation)
        found.append((setting, layers_without_effect(kept, file, services.image, services.config.node_id)))
    for synonym, row in BROKER_SYNONYMS.items():
        found.append((Setting(synonym, row.type, False, row.documentation), _layers(services, row.name, {})))
    return found


def _cluster_default(services: Services) -> Found:
    """Only what was set for all brokers together."""
    return [
        (
            Setting(name, DYNAMIC_BROKER[name].type, False, DYNAMIC_BROKER[name].documentation),
            [Layer(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)],
        )
        for name, value in services.image.configs(ResourceType.BROKER, DEFAULT_RESOURCE).items()
    ]


def _layers(services: Services, topic_setting: str, configs: Mapping[str, str]) -> list[Layer]:
    node = services.config.node_id
    return layers(TOPIC_SETTINGS[topic_setting], configs, services.image, node, services.topic_defaults)


def _refuse_other_broker(services: Services, name: str) -> Refusal | None:
    """A broker knows only its own settings."""
    if name == str(services.config.node_id):
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"this is broker {services.config.node_id}, not broker {name}")
