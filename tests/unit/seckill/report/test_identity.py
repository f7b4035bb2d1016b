"""Ids have one text form, whatever notation they were written in."""

from __future__ import annotations

from uuid import uuid4

import pytest

from seckill.report.identity import identity, number


def test_all_notations_of_an_id_give_the_same_object() -> None:
    plain = uuid4()
    known = identity(str(plain))
    assert identity(str(plain).upper()) is known
    assert identity(plain.hex) is known
    assert number(known) == plain.int
    assert identity(str(uuid4())) != known


@pytest.mark.parametrize("text", ["", "no id", "57437eb3-6d1f-59ca-aeaf-65846", "57437eb3-6d1f-59ca-aeaf-658467b4076g"])
def test_text_that_is_not_a_uuid_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        identity(text)


def test_a_number_is_rejected() -> None:
    with pytest.raises(TypeError):
        identity(7)  # type: ignore[arg-type]
