"""One text for each identity, however somebody wrote it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from seckill.consistency.identity import identity, number


def test_all_ways_to_write_an_identity_are_the_same_object() -> None:
    plain = uuid4()
    known = identity(str(plain))
    assert identity(str(plain).upper()) is known
    assert identity(plain.hex) is known
    assert number(known) == plain.int
    assert identity(str(uuid4())) != known


@pytest.mark.parametrize("text", ["", "no id", "57437eb3-6d1f-59ca-aeaf-65846", "57437eb3-6d1f-59ca-aeaf-658467b4076g"])
def test_what_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        identity(text)


def test_a_number_is_no_identity() -> None:
    with pytest.raises(TypeError):
        identity(7)  # type: ignore[arg-type]
