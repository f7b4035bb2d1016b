"""Runs each fuzz target briefly with the same inputs every time; `python -m tests.fuzz NAME` runs one longer."""

from __future__ import annotations

import pytest

from tests.fuzz.plain import search
from tests.fuzz.targets import TARGETS, Target

EXECUTIONS = 20_000


@pytest.mark.parametrize("name", TARGETS)
def test_random_input_is_decoded_or_refused(name: str) -> None:
    search(TARGETS[name], EXECUTIONS, seed=2026)


def test_the_fuzzer_finds_a_decoder_that_trusts_a_length() -> None:
    def trusting(data: bytes) -> None:
        if data:
            data[data[0]]

    with pytest.raises(IndexError) as found:
        search(Target(trusting, lambda: [b"\x01a", b"\x02ab"]), EXECUTIONS, seed=2026)
    assert "input" in found.value.__notes__[0]
