"""Machine: the rules for changing settings: from the image, the facts and one answer for each resource.

Own rule: every setting in the metadata log was checked before. A topic accepts the settings of the log's table. A
broker accepts the defaults of topics (`log.retention.ms`, …) and rejects its other settings, which it reads only at
its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from mqcore.config import settings
from mqcore.config_values import INT_MAX
from mqcore.controller.commands import Alteration, AlterConfigs, ConfigEdit, Outcomes, ResourceEdits
from mqcore.controller.facts import ConfigChanged, MetadataFact, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.controller.setting_layers import BROKER_SYNONYMS, CLUSTER_WIDE, DEFAULT_RESOURCE, DYNAMIC_BROKER
from mqcore.controller.settings_without_effect import READ_AT_START, SECRETS, SETTINGS_WITHOUT_EFFECT
from mqcore.log.setting_types import SettingType, TopicSetting, value_error
from mqcore.log.topic_config import TOPIC_SETTINGS, setting_error
from mqcore.wire.errors import ErrorCode, Refusal

Check = Callable[[str, str], str | None]
"""Returns what is wrong with the value of a setting, or None. Raises KeyError for an unknown name."""

VALUE_BYTES_MAX = 32767
"""As in Kafka, because the older versions of DescribeConfigs cannot send longer strings."""

NUMBER_BYTES_MAX = 64
"""Also for booleans. Needed because spaces around a number are allowed and each value is kept in the metadata log."""

_TEXTS = (SettingType.STRING, SettingType.LIST)

_READ_AT_START = (frozenset(settings()) | READ_AT_START) - SETTINGS_WITHOUT_EFFECT.keys()


def topic_config_refusal(configs: Mapping[str, str | None], batch_limit: int = INT_MAX) -> Refusal | None:
    """Why a topic cannot have these settings; None if it can. `batch_limit`: the largest batch in one request."""
    for name, value in configs.items():
        if name not in TOPIC_SETTINGS:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        wrong = (
            _too_long(TOPIC_SETTINGS[name], value) or setting_error(name, value) or _too_large(name, value, batch_limit)
        )
        if wrong:
            return Refusal(ErrorCode.INVALID_CONFIG, wrong)
    return None


def decide_alter_configs(
    image: ClusterImage, command: AlterConfigs, batch_limit: int = INT_MAX
) -> tuple[list[MetadataFact], Outcomes]:
    facts: list[MetadataFact] = []
    answers: list[Refusal | None] = []
    named = Counter((resource.resource_type, resource.resource) for resource in command.resources)
    for resource in command.resources:
        if named[resource.resource_type, resource.resource] > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the request contains this resource twice"))
            continue
        changes = _changes(image, resource, batch_limit)
        if isinstance(changes, Refusal):
            answers.append(changes)
        else:
            facts += changes
            answers.append(None)
    return ([] if command.validate_only else facts), tuple(answers)


def _changes(image: ClusterImage, resource: ResourceEdits, batch_limit: int) -> list[MetadataFact] | Refusal:
    check = _check_of(image, resource)
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
    removed = [name for name, value in after.items() if value is None and name in before and name in CLUSTER_WIDE]
    if removed and resource.resource == DEFAULT_RESOURCE:  # the file of the next controller would set it again
        why = f"The cluster's value of {removed[0]} cannot be removed; set it instead"
        return Refusal(ErrorCode.INVALID_CONFIG, why)
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
    limit = VALUE_BYTES_MAX if row is None or row.type in _TEXTS else NUMBER_BYTES_MAX
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


def _check_of(image: ClusterImage, resource: ResourceEdits) -> Check | Refusal:
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
                return Refusal(ErrorCode.INVALID_REQUEST, f"{why}, because the broker reads them only at its start")
            set_here = [edit.name for edit in resource.edits if edit.alteration != Alteration.DELETE]
            shared = [name for name in set_here if name in CLUSTER_WIDE]
            if shared and resource.resource != DEFAULT_RESOURCE:
                why = f"Cannot set these configs for one broker: [{', '.join(shared)}]; set them for the whole cluster"
                return Refusal(ErrorCode.INVALID_CONFIG, why)
            secrets = [edit.name for edit in resource.edits if edit.name in SECRETS]
            if secrets:
                why = f"This broker supports neither TLS nor SASL and does not store secrets: [{', '.join(secrets)}]"
                return Refusal(ErrorCode.INVALID_REQUEST, why)
            return _check_broker_setting
        case _:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def _unknown_broker(image: ClusterImage, name: str) -> Refusal:
    if not (name.isascii() and name.isdigit()):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    known = ", ".join(map(str, sorted(image.brokers)))
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {known}, but received {name}")


def _check_broker_setting(name: str, value: str) -> str | None:
    kept = SETTINGS_WITHOUT_EFFECT.get(name)
    return setting_error(BROKER_SYNONYMS[name].name, value) if kept is None else value_error(kept, value)


def _check_topic_setting(name: str, value: str) -> str | None:
    if name not in TOPIC_SETTINGS:
        raise KeyError(name)
    return setting_error(name, value)


def _edited(edit: ConfigEdit, present: str | None, resource_type: ResourceType) -> str | Refusal | None:
    """The value after one edit; None stands for the default."""
    if edit.alteration == Alteration.DELETE:
        return None
    if edit.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {edit.name}")
    if edit.alteration == Alteration.SET:
        return edit.value
    if edit.alteration not in (Alteration.APPEND, Alteration.SUBTRACT):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation {edit.alteration} for {edit.name}")
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
