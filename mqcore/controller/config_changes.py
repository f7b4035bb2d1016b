"""Machine: the rules of changing settings: image in, facts and one answer a resource out.

Own rule: what is in the metadata log has been checked. A topic takes the log's table of settings; a broker takes the
defaults of topics (`log.retention.ms`, …) and refuses the rest, which it reads once, at its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from mqcore.config import INT_MAX, settings
from mqcore.controller.commands import Alteration, AlterConfigs, ConfigEdit, ControllerAnswer, ResourceEdits
from mqcore.controller.facts import ConfigChanged, MetadataFact, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.kept_settings import BROKER_KEPT, READ_AT_START, SECRETS
from mqcore.controller.settings import DEFAULT_RESOURCE, DYNAMIC_BROKER
from mqcore.log.config import TOPIC_SETTINGS, SettingType, TopicSetting, invalid_value, validate
from mqcore.wire.errors import ErrorCode, Refusal

Check = Callable[[str, str], str | None]
"""What is wrong with a value (None: nothing); KeyError for an unknown name."""

LONGEST_VALUE = 32767
"""In bytes, as in Kafka: the older versions of DescribeConfigs cannot say more."""

LONGEST_NUMBER = 64
"""In bytes, also of a boolean. Blanks around it are allowed, and each value is a record of the metadata log."""

_TEXTS = (SettingType.STRING, SettingType.LIST)

_READ_AT_START = (frozenset(settings()) | READ_AT_START) - BROKER_KEPT.keys()


def check_topic(configs: Mapping[str, str | None], batch_limit: int = INT_MAX) -> Refusal | None:
    """Why these settings of a topic cannot be; None if they can. `batch_limit`: what one request can carry."""
    for name, value in configs.items():
        if name not in TOPIC_SETTINGS:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        wrong = _too_long(TOPIC_SETTINGS[name], value) or validate(name, value) or _too_large(name, value, batch_limit)
        if wrong:
            return Refusal(ErrorCode.INVALID_CONFIG, wrong)
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
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    resource_type = ResourceType(resource.resource_type)
    before = image.configs(resource_type, resource.resource)
    after: dict[str, str | None] = dict.fromkeys(before) if resource.replace_all else {}
    for edit in resource.edits:
        value = _edited(edit, before.get(edit.name), resource_type)
        if isinstance(value, Refusal):
            return value
        if value is not None:
            refusal = _check_value(check, resource_type, edit.name, value, batch_limit)
            if refusal is not None:
                return refusal
        after[edit.name] = value
    return [
        ConfigChanged(resource_type, resource.resource, name, value)
        for name, value in after.items()
        if value != before.get(name)
    ]


def _check_value(check: Check, kind: ResourceType, name: str, value: str, batch_limit: int) -> Refusal | None:
    try:
        wrong = _too_long(_row(name, kind), value) or check(name, value) or _too_large(name, value, batch_limit)
    except KeyError:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown {kind.name.lower()} config name: {name}")
    return Refusal(ErrorCode.INVALID_CONFIG, wrong) if wrong else None


def _too_long(row: TopicSetting | None, value: str) -> str | None:
    limit = LONGEST_VALUE if row is None or row.type in _TEXTS else LONGEST_NUMBER
    size = len(value.encode())
    if size <= limit:
        return None
    return (
        "The configuration value cannot be added because it exceeds the maximum value size of "
        f"{limit} bytes: it has {size}"
    )


def _too_large(name: str, value: str, batch_limit: int) -> str | None:
    if name not in ("max.message.bytes", "message.max.bytes") or int(value) <= batch_limit:
        return None
    return f"{name}={value} is above socket.request.max.bytes={batch_limit}, so no request could carry such a batch"


def _check_of(image: ClusterImage, check_broker: Check, resource: ResourceEdits) -> Check | Refusal:
    match resource.resource_type:
        case ResourceType.TOPIC:
            if resource.resource not in image.topics:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.resource}' does not exist.")
            return _check_topic_setting
        case ResourceType.BROKER:
            if resource.resource != DEFAULT_RESOURCE and resource.resource not in map(str, image.brokers):
                return _unknown_broker(image, resource.resource)
            fixed = [edit.name for edit in resource.edits if edit.name in _READ_AT_START]
            if fixed:
                why = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
                return Refusal(ErrorCode.INVALID_REQUEST, f"{why}, they cannot be changed while the broker runs")
            secrets = [edit.name for edit in resource.edits if edit.name in SECRETS]
            if secrets:
                why = f"This broker serves neither TLS nor SASL and does not keep secrets: [{', '.join(secrets)}]"
                return Refusal(ErrorCode.INVALID_REQUEST, why)
            return partial(_check_broker_setting, check_broker)
        case _:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _unknown_broker(image: ClusterImage, name: str) -> Refusal:
    if not (name.isascii() and name.isdigit()):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    known = ", ".join(map(str, sorted(image.brokers)))
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {known}, but received {name}")


def _check_broker_setting(check_broker: Check, name: str, value: str) -> str | None:
    kept = BROKER_KEPT.get(name)
    return check_broker(name, value) if kept is None else invalid_value(kept, value)


def _check_topic_setting(name: str, value: str) -> str | None:
    if name not in TOPIC_SETTINGS:
        raise KeyError(name)
    return validate(name, value)


def _edited(edit: ConfigEdit, present: str | None, resource_type: ResourceType) -> str | Refusal | None:
    """The value after one edit; None: the default."""
    if edit.alteration == Alteration.DELETE:
        return None
    if edit.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {edit.name}")
    if edit.alteration == Alteration.SET:
        return edit.value
    if edit.alteration not in (Alteration.APPEND, Alteration.SUBTRACT):
        return Refusal(ErrorCode.INVALID_REQUEST, f"unknown operation {edit.alteration} on {edit.name}")
    row = _row(edit.name, resource_type)
    if row is None or row.type is not SettingType.LIST:
        verb = Alteration(edit.alteration).name
        return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {edit.name} because its type is not LIST.")
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
    return TOPIC_SETTINGS.get(name) if resource_type is ResourceType.TOPIC else DYNAMIC_BROKER.get(name)
