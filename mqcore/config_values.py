"""Codec: the text of one setting → its value. Every error names the setting, the value and what is expected."""

from __future__ import annotations

import re
from dataclasses import Field
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
TEXT_CHARACTERS_MAX = 1000
_LONG_UNITS = ("_ms", "_bytes")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)  # int() would also take 1_000


class BadConfig(ValueError):
    """A setting is unknown or has an invalid value; the text says what to change."""


def parse_value(spec: Field[Any], name: str, value: object) -> Any:
    """The value in the type of its field. Raises BadConfig."""
    try:
        if spec.type in ("int", int):
            number = value if isinstance(value, int) and not isinstance(value, bool) else whole_number(str(value))
            minimum = spec.metadata["minimum"]
            if minimum is not None and number < minimum:
                raise BadConfig(f"{name} must be at least {minimum}, got {number}")
            maximum = LONG_MAX if spec.name.endswith(_LONG_UNITS) else INT_MAX
            if number > maximum:
                raise BadConfig(f"{name} must be at most {maximum}, got {abbreviated(number)}")
            return number
        if spec.type in ("bool", bool):
            return {"true": True, "false": False}[str(value).lower()]
        text, choices = _text(name, str(value)), spec.metadata["choices"]
        if choices and text not in choices:
            raise BadConfig(f"{name} must be one of {', '.join(filter(None, choices))}, got {abbreviated(text)!r}")
        return text
    except (ValueError, KeyError) as error:
        if isinstance(error, BadConfig):
            raise
        expected = "true or false" if spec.type in ("bool", bool) else "a whole number"
        raise BadConfig(f"{name} must be {expected}, got {abbreviated(value)!r}") from error


def whole_number(text: str) -> int:
    """Parse a decimal number as Kafka does. Raises `ValueError` for anything else."""
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise ValueError("must be a whole number")
    return int(text)


def abbreviated(value: object) -> str:
    """The value for an error message of one line."""
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"  # Python does not print numbers of more than 4,300 digits
    text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _text(name: str, value: str) -> str:
    if "\0" in value:
        raise BadConfig(f"{name} must not contain a zero byte")
    if name == "log.dirs":
        return value  # the name of a folder may be any bytes
    if len(value) > TEXT_CHARACTERS_MAX:
        raise BadConfig(f"{name} must have at most {TEXT_CHARACTERS_MAX} characters, got {len(value)}")
    if not value.isprintable():
        raise BadConfig(f"{name} must contain printable characters only, got {abbreviated(value)!a}")
    return value


def host_and_port(address: str, setting_name: str) -> tuple[str, int]:
    """Split HOST:PORT or [HOST]:PORT."""
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise BadConfig(f"{setting_name} must be HOST:PORT, got {abbreviated(address)!r}")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise BadConfig(f"{setting_name}: {abbreviated(host)!r} is not a valid host name: {error}") from error
    return host.strip("[]"), int(port)
