"""Error codes have Kafka's names and numbers."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from mqcore.wire.errors import ErrorCode, Refusal


def test_error_codes_have_the_names_and_numbers_of_kio() -> None:
    theirs = {int(each.value): each.name.upper() for each in KioErrorCode}
    for each in ErrorCode:
        assert theirs[each.value] == each.name


def test_a_refusal_is_a_value() -> None:
    assert Refusal(ErrorCode.INVALID_CONFIG, "why") == Refusal(ErrorCode.INVALID_CONFIG, "why")
    assert Refusal(ErrorCode.INVALID_CONFIG).message is None
