"""One log event is one line, whatever its fields contain."""

from __future__ import annotations

import logging

import pytest

from mqcore.logs import OneLineFormatter


def formatted(message: str, *, exc_info: object = None, **fields: object) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "exc_info": exc_info, **fields})
    return OneLineFormatter().format(record)


def test_fields_follow_the_message_as_key_and_value() -> None:
    assert formatted("partition offline", partition="orders-0", offset=5).endswith(
        "INFO    partition offline partition=orders-0 offset=5"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [("two words", '"two words"'), ("two\nlines", '"two\\nlines"'), ("\x1b[31m", '"\\u001b[31m"')],
)
def test_a_value_with_spaces_or_control_characters_is_quoted_and_stays_on_the_line(value: str, written: str) -> None:
    line = formatted("connection closed", client=value)
    assert line.endswith(f"client={written}") and "\n" not in line


def test_a_traceback_is_one_field_of_the_line() -> None:
    try:
        raise ValueError("a bug")
    except ValueError as error:
        line = formatted("a task failed", exc_info=(type(error), error, error.__traceback__))
    assert "\n" not in line and 'trace="Traceback' in line and "ValueError: a bug" in line
