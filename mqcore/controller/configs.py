"""Machine: the rules of changing settings. The table of topic settings is the log's; a group's is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mqcore.controller.commands import AlterConfigs, Alteration, ConfigEdit, ControllerAnswer, ResourceEdits
from mqcore.controller.facts import ConfigChanged, MetadataFact, ResourceType
from mqcore.controller.image import ClusterImage
from mqcore.log.config import TOPIC_SETTINGS, SettingType, validate
from mqcore.wire.errors import ErrorCode, Refusal

Check = Callable[[str, str], str | None]
"""What is wrong with a value (None: nothing); KeyError for an unknown name."""

DEFAULT_RESOURCE = ""
"""The cluster-wide default of all brokers."""


def check_topic(configs: Mapping[str, str | None]) -> Refusal | None:
    """Why these settings of a topic cannot be; None if they can."""
    for name, value in configs.items():
        if name not in TOPIC_SETTINGS:
            return Refusal(ErrorCode.INVALID_CONFIG, f"unknown topic setting {name}")
        if value is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{name} has no value")
        wrong = validate(name, value)
        if wrong:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{name}={value}: {wrong}")
    return None


def alter(
    image: ClusterImage, check_broker: Check, command: AlterConfigs
) -> tuple[list[MetadataFact], ControllerAnswer]:
    facts: list[MetadataFact] = []
    answers: list[Refusal | None] = []
    named = [(resource.resource_type, resource.resource) for resource in command.resources]
    for resource in command.resources:
        if named.count((resource.resource_type, resource.resource)) > 1:
            answers.append(Refusal(ErrorCode.INVALID_REQUEST, "the resource is named twice in one request"))
            continue
        changes = _changes(image, check_broker, resource)
        if isinstance(changes, Refusal):
            answers.append(changes)
        else:
            facts += changes
            answers.append(None)
    return ([] if command.validate_only else facts), tuple(answers)


def _changes(image: ClusterImage, check_broker: Check, resource: ResourceEdits) -> list[MetadataFact] | Refusal:
    check = _check_of(image, check_broker, resource)
    if isinstance(check, Refusal):
        return check
    names = [edit.name for edit in resource.edits]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "a setting is named twice")
    before = image.configs(resource.resource_type, resource.resource)
    after: dict[str, str | None] = dict.fromkeys(before) if resource.replace_all else {}
    for edit in resource.edits:
        value = _edited(edit, before.get(edit.name), resource.resource_type)
        if isinstance(value, Refusal):
            return value
        try:
            wrong = None if value is None else check(edit.name, value)
        except KeyError:
            return Refusal(ErrorCode.INVALID_CONFIG, f"unknown setting {edit.name}")
        if wrong:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{edit.name}={value}: {wrong}")
        after[edit.name] = value
    return [
        ConfigChanged(resource.resource_type, resource.resource, name, value)
        for name, value in after.items()
        if value != before.get(name)
    ]


def _check_of(image: ClusterImage, check_broker: Check, resource: ResourceEdits) -> Check | Refusal:
    match resource.resource_type:
        case ResourceType.TOPIC:
            if resource.resource not in image.topics:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {resource.resource} does not exist")
            return _check_topic_setting
        case ResourceType.BROKER:
            if resource.resource != DEFAULT_RESOURCE and resource.resource not in map(str, image.brokers):
                return Refusal(ErrorCode.INVALID_REQUEST, f"broker {resource.resource} does not exist")
            return check_broker
        case _:
            message = f"settings of {resource.resource_type.name} are not kept"
            return Refusal(ErrorCode.INVALID_REQUEST, message)


def _check_topic_setting(name: str, value: str) -> str | None:
    if name not in TOPIC_SETTINGS:
        raise KeyError(name)
    return validate(name, value)


def _edited(edit: ConfigEdit, present: str | None, resource_type: ResourceType) -> str | None | Refusal:
    """The value after one edit; None: the default."""
    if edit.alteration is Alteration.DELETE:
        return None
    if edit.value is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"{edit.name} has no value")
    if edit.alteration is Alteration.SET:
        return edit.value
    spec = TOPIC_SETTINGS.get(edit.name)
    if resource_type is not ResourceType.TOPIC or spec is None or spec.type is not SettingType.LIST:
        return Refusal(ErrorCode.INVALID_CONFIG, f"{edit.name} is no list")
    entries = [entry for entry in (spec.default if present is None else present).split(",") if entry]
    asked = [entry.strip() for entry in edit.value.split(",") if entry.strip()]
    if edit.alteration is Alteration.APPEND:
        entries += [entry for entry in asked if entry not in entries]
    else:
        entries = [entry for entry in entries if entry not in asked]
    return ",".join(entries)
