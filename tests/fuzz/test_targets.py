"""Each fuzz target for a moment, the same inputs every time; `python -m tests.fuzz NAME` goes on for longer."""

from __future__ import annotations

import pytest

from tests.fuzz.plain import search
from tests.fuzz.targets import TARGETS, Target

EXECUTIONS = 20_000


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_is_read_or_refused(name: str) -> None:
    search(TARGETS[name], EXECUTIONS, seed=2026)


def test_the_search_finds_a_decoder_that_trusts_a_length() -> None:
    def trusting(data: bytes) -> None:
        if data:
            data[data[0]]

    with pytest.raises(IndexError) as found:
        search(Target(trusting, lambda: [b"\x01a", b"\x02ab"]), EXECUTIONS, seed=2026)
    assert "input" in found.value.__notes__[0]
