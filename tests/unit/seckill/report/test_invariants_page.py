"""The page on the invariants says what the checks say of themselves."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from seckill.consistency.invariants.judging import INVARIANTS
from seckill.consistency.rows import SOURCES
from seckill.consistency.verdicts import Invariant

PAGE = (Path(__file__).parents[4] / "docs" / "invariants.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda each: each.name)
def test_an_invariant_stands_on_the_page_in_the_words_of_its_check(invariant: Invariant) -> None:
    contract = re.sub(r"\s+", " ", inspect.getdoc(invariant.check) or "")
    words = re.sub(r"^I\d+(, graded)?\. ", "", contract)
    rests_on = " ".join(invariant.needs) or "all that are declared"
    assert f"| {invariant.name} | {invariant.title} | {words} | {rests_on} |" in PAGE


@pytest.mark.parametrize("letter", SOURCES)
def test_a_source_stands_on_the_page(letter: str) -> None:
    assert f"| {letter} | {SOURCES[letter]} |" in PAGE
