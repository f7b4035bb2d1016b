"""docs/invariants.md repeats the docstrings of the checks."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from seckill.report.evidence_sources import Source
from seckill.report.invariants.registry import INVARIANTS
from seckill.report.verdicts import Invariant

PAGE = (Path(__file__).parents[4] / "docs" / "invariants.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda each: each.name)
def test_the_page_describes_every_invariant_with_the_docstring_of_its_check(invariant: Invariant) -> None:
    contract = re.sub(r"\s+", " ", inspect.getdoc(invariant.check) or "")
    words = re.sub(r"^I\d+(, graded)?\. ", "", contract)
    rests_on = " ".join(invariant.needs) or "all that are declared"
    assert f"| {invariant.name} | {invariant.title} | {words} | {rests_on} |" in PAGE


@pytest.mark.parametrize("source", Source)
def test_the_page_lists_every_source(source: Source) -> None:
    assert f"| {source} | {source.description} |" in PAGE
