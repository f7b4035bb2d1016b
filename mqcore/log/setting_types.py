"""Codec: the types of settings. Turns text into a checked value, or says why the text is invalid."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

FOREVER = 2**63 - 1
INT_MAX = 2**31 - 1


class SettingType(IntEnum):
    """The types with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8


Check = Callable[[Any], str | None]
"""Why a value of the right type is not acceptable; None if it is."""


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One topic setting. `synonym` is the broker setting with the default for all topics."""

    name: str
    type: SettingType
    default: str
    check: Check
    synonym: str | None
    documentation: str

    def parse(self, text: str) -> Any:
        """The value of the text. Raises `ValueError` with the reason if the text is invalid."""
        value = _PARSERS[self.type](text.strip())
        reason = self.check(value)
        if reason is not None:
            raise ValueError(reason)
        return value


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError("must be true or false")


def _integer(limit: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not -limit - 1 <= value <= limit:
            raise ValueError("Not a number of this type, is out of range")
        return value

    return parse


def _double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


_PARSERS: dict[SettingType, Callable[[str], Any]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: str,
    SettingType.CLASS: str,
    SettingType.SHORT: _integer(2**15 - 1),
    SettingType.INT: _integer(INT_MAX),
    SettingType.LONG: _integer(FOREVER),
    SettingType.DOUBLE: _double,
    SettingType.LIST: _list,
}

_WHOLE_TYPES = (SettingType.SHORT, SettingType.INT, SettingType.LONG)
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)  # Python would also take 1_000
_QUOTED_CHARACTERS_MAX = 100


def value_error(setting: TopicSetting, value: str) -> str | None:
    """Why the setting cannot have this value; None if it can."""
    try:
        if setting.type in _WHOLE_TYPES and not _WHOLE_NUMBER.fullmatch(value.strip()):
            raise ValueError(f"Not a number of type {setting.type.name}, must be a whole number")
        if setting.type is SettingType.DOUBLE and "_" in value:
            raise ValueError(f"Not a number of type {setting.type.name}, must be a number")
        setting.parse(value)
    except ValueError as error:
        return invalid_value_message(setting.name, value, error)
    return None


def invalid_value_message(name: str, value: str, error: ValueError) -> str:
    return f"Invalid value {value[:_QUOTED_CHARACTERS_MAX]} for configuration {name}: {error}"
