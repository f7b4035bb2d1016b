"""Machine: the rules of changing settings: image in, facts and one answer a resource out.

Own rule: what is in the metadata log has been checked. A topic takes the log's table of settings; a broker takes the
defaults of topics (`log.retention.ms`, …) and refuses the rest, which it reads once, at its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from mqcore.config import INT_MAX, settings
from mqcore.controller.commands import Alteration, AlterConfigs, ConfigEdit, ControllerAnswer, ResourceEdits
from mqcore.controller.facts import ConfigChanged, MetadataFact, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.settings import BROKER_SYNONYMS, DEFAULT_RESOURCE
from mqcore.log.config import TOPIC_SETTINGS, SettingType, TopicSetting, validate
from mqcore.wire.errors import ErrorCode, Refusal

Check = Callable[[str, str], str | None]
"""What is wrong with a value (None: nothing); KeyError for an unknown name."""

LONGEST_VALUE = 32767
"""In bytes, as in Kafka: the older versions of DescribeConfigs cannot say more."""

LONGEST_NUMBER = 64
"""In bytes, also of a boolean. Blanks around it are allowed, and each value is a record of the metadata log."""

_TEXTS = (SettingType.STRING, SettingType.LIST)

_READ_AT_START = frozenset(settings())


def check_topic(configs: Mapping[str, str | None], batch_limit: int = INT_MAX) -> Refusal | None:
    """Why these settings of a topic cannot be; None if they can. `batch_limit`: what one request can carry."""
    for name, value in configs.items():
        if name not in TOPIC_SETTINGS:
            return Refusal(ErrorCode.INVALID_CONFIG, f"unknown topic setting {name}")
        if value is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{name} has no value")
        wrong = _too_long(TOPIC_SETTINGS[name], value) or validate(name, value) or _too_large(name, value, batch_limit)
        if wrong:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{name}={value}: {wrong}")
    return None


def alter(
    image: ClusterImage, check_broker: Check, command: AlterConfigs, batch_limit: int = INT_MAX
) -> tuple[list[MetadataFact], ControllerAnswer]:
    facts: list[MetadataFact] = []
    answers: list[Refusal | None] = []
    named = Counter((resource.resource_type, resource.resource) for resource in command.resources)
    for resource in command.resources:
        if named[resource.resource_type, resource.resource] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the resource is named twice in one request"))
            continue
        changes = _changes(image, check_broker, resource, batch_limit)
        if isinstance(changes, Refusal):
            answers.append(changes)
        else:
            facts += changes
            answers.append(None)
    return ([] if command.validate_only else facts), tuple(answers)


def _changes(
    image: ClusterImage, check_broker: Check, resource: ResourceEdits, batch_limit: int
) -> list[MetadataFact] | Refusal:
    check = _check_of(image, check_broker, resource)
    if isinstance(check, Refusal):
        return check
    if len({edit.name for edit in resource.edits}) != len(resource.edits):
        return Refusal(ErrorCode.INVALID_REQUEST, "a setting is named twice")
    resource_type = ResourceType(resource.resource_type)
    before = image.configs(resource_type, resource.resource)
    after: dict[str, str | None] = dict.fromkeys(before) if resource.replace_all else {}
    for edit in resource.edits:
        value = _edited(edit, before.get(edit.name), resource_type)
        if isinstance(value, Refusal):
            return value
        if value is not None:
            refusal = _check_value(check, edit.name, value, _row(edit.name, resource_type), batch_limit)
            if refusal is not None:
                return refusal
        after[edit.name] = value
    return [
        ConfigChanged(resource_type, resource.resource, name, value)
        for name, value in after.items()
        if value != before.get(name)
    ]


def _check_value(check: Check, name: str, value: str, row: TopicSetting | None, batch_limit: int) -> Refusal | None:
    try:
        wrong = _too_long(row, value) or check(name, value) or _too_large(name, value, batch_limit)
    except KeyError:
        return Refusal(ErrorCode.INVALID_CONFIG, f"unknown setting {name}")
    return Refusal(ErrorCode.INVALID_CONFIG, wrong) if wrong else None


def _too_long(row: TopicSetting | None, value: str) -> str | None:
    limit = LONGEST_VALUE if row is None or row.type in _TEXTS else LONGEST_NUMBER
    size = len(value.encode())
    return f"the value has {size} bytes, at most {limit} are allowed" if size > limit else None


def _too_large(name: str, value: str, batch_limit: int) -> str | None:
    if name not in ("max.message.bytes", "message.max.bytes") or int(value) <= batch_limit:
        return None
    return f"{name}={value} is above socket.request.max.bytes={batch_limit}, so no request could carry such a batch"


def _check_of(image: ClusterImage, check_broker: Check, resource: ResourceEdits) -> Check | Refusal:
    match resource.resource_type:
        case ResourceType.TOPIC:
            if resource.resource not in image.topics:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {resource.resource} does not exist")
            return _check_topic_setting
        case ResourceType.BROKER:
            if resource.resource != DEFAULT_RESOURCE and resource.resource not in map(str, image.brokers):
                return Refusal(ErrorCode.INVALID_REQUEST, f"broker {resource.resource} does not exist")
            for edit in resource.edits:
                if edit.name in _READ_AT_START:
                    return Refusal(ErrorCode.INVALID_REQUEST, f"{edit.name} cannot be changed while the broker runs")
            return check_broker
        case _:
            return Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings")


def _check_topic_setting(name: str, value: str) -> str | None:
    if name not in TOPIC_SETTINGS:
        raise KeyError(name)
    return validate(name, value)


def _edited(edit: ConfigEdit, present: str | None, resource_type: ResourceType) -> str | Refusal | None:
    """The value after one edit; None: the default."""
    if edit.alteration == Alteration.DELETE:
        return None
    if edit.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{edit.name} has no value")
    if edit.alteration == Alteration.SET:
        return edit.value
    if edit.alteration not in (Alteration.APPEND, Alteration.SUBTRACT):
        return Refusal(ErrorCode.INVALID_REQUEST, f"unknown operation {edit.alteration} on {edit.name}")
    row = _row(edit.name, resource_type)
    if row is None or row.type is not SettingType.LIST:
        return Refusal(ErrorCode.INVALID_CONFIG, f"{edit.name} is no list")
    entries = dict.fromkeys(_entries(row.default if present is None else present))
    for entry in _entries(edit.value):
        if edit.alteration == Alteration.APPEND:
            entries[entry] = None
        else:
            entries.pop(entry, None)
    return ",".join(entries)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _row(name: str, resource_type: ResourceType) -> TopicSetting | None:
    return TOPIC_SETTINGS.get(name) if resource_type is ResourceType.TOPIC else BROKER_SYNONYMS.get(name)
