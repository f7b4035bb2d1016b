"""Each lab names code and a test that exist, and has a page in both languages with a picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seckill.lab.labs.catalogue import LABS
from seckill.lab.labs.excerpt import ROOT, CodeNotFound, read_excerpt
from seckill.lab.labs.lab import CODE_LINES_MAX, Code, Lab
from tests.architecture.commands import blocks, commands, problem_with
from tests.architecture.links import has

PAGES = ROOT / "docs" / "labs"
EVERY_LAB = pytest.mark.parametrize("lab", LABS.values(), ids=lambda lab: lab.stem)


def page(lab: Lab, language: str = "") -> Path:
    return PAGES / f"{lab.stem}{language}.md"


def shape(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]


def targets(text: str) -> set[str]:
    """What a page links to, without the links from one page of the labs to another."""
    return {target for target in re.findall(r"\]\(([^)]+)\)", text) if not re.match(r"[\w.-]+\.md$", target)}


@EVERY_LAB
def test_the_lines_that_matter_are_in_the_source_and_fit_on_a_screen(lab: Lab) -> None:
    excerpts = [read_excerpt(code) for code in lab.code]
    assert all(excerpt.lines for excerpt in excerpts)
    assert sum(len(excerpt.lines) for excerpt in excerpts) <= CODE_LINES_MAX


@EVERY_LAB
def test_the_guarding_test_exists(lab: Lab) -> None:
    path, _, name = lab.test.partition("::")
    assert has((ROOT / path).read_text(encoding="utf-8"), name)


@EVERY_LAB
def test_both_pages_say_the_same_with_commands_that_work(lab: Lab) -> None:
    english, chinese = (page(lab, language).read_text(encoding="utf-8") for language in ("", ".zh-CN"))
    assert english.startswith(f"# Lab {lab.number} · {lab.question}\n")
    assert shape(english) == shape(chinese)
    assert blocks(english) == blocks(chinese)
    assert targets(english) == targets(chinese)
    assert [problem for command in commands(english) if (problem := problem_with(command))] == []
    assert f".venv/bin/seckill lab run {lab.number}" in commands(english)


@EVERY_LAB
def test_the_page_shows_a_picture_of_a_run_that_was_as_expected(lab: Lab) -> None:
    picture = PAGES / "pictures" / f"{lab.stem}.svg"
    assert f"(pictures/{picture.name})" in page(lab).read_text(encoding="utf-8")
    shown = ElementTree.parse(picture).getroot().get("aria-label") or ""
    counts = re.fullmatch(rf"broken: ([\d,]+) {lab.damage}; fixed: ([\d,]+) {lab.damage}", shown)
    assert counts is not None, f"{shown}: run `seckill lab run {lab.number} --picture {picture.parent}` again"
    assert counts[1] != "0" and counts[2] == "0"


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_index_lists_every_lab(name: str) -> None:
    language = ".zh-CN" if "zh" in name else ""
    text = (PAGES / name).read_text(encoding="utf-8")
    assert [lab.stem for lab in LABS.values() if f"]({page(lab, language).name})" not in text] == []
    assert [problem for command in commands(text) if (problem := problem_with(command))] == []


def test_both_indexes_have_the_same_content() -> None:
    english, chinese = ((PAGES / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    assert shape(english) == shape(chinese)
    assert blocks(english) == blocks(chinese)
    assert targets(english) == targets(chinese)
    assert english.count("\n| ") == chinese.count("\n| ") > 40


@pytest.mark.parametrize(
    "gone",
    [
        Code("inventory/stock.py", "decide_nothing"),
        Code("inventory/stock.py", "decide_requests", first="no such line"),
        Code("inventory/stock.py", "decide_requests", last="no such line"),
    ],
)
def test_lines_that_are_gone_are_missed(gone: Code) -> None:
    with pytest.raises(CodeNotFound):
        read_excerpt(gone)


def test_an_excerpt_has_the_numbers_of_its_lines() -> None:
    path, first, lines = read_excerpt(Code("inventory/stock.py", "decide_requests", "decided = []", "return decided"))
    source = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert source[first - 1] == lines[0] == "    decided = []"
    assert source[first + len(lines) - 2] == lines[-1] == "    return decided"
