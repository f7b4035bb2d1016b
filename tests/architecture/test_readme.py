"""The README says the same in both languages, and its commands, as those of CONTRIBUTING.md, are understood."""

from __future__ import annotations

import re

import pytest

import seckill.faults.cases  # noqa: F401  # fills the table
from seckill.faults.case import CASES
from tests.architecture.commands import blocks, commands, wrong
from tests.architecture.links import ROOT

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ENGLISH, CHINESE = (ROOT / name for name in ("README.md", "README.zh-CN.md"))
PICTURE = re.compile(r"──▶")


def shape(text: str) -> list[int]:
    """The levels of the headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]


def table_rows(text: str) -> list[int]:
    """Of each table, how many lines."""
    return [len(table.splitlines()) for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def targets(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh-CN.md"}


def figures(text: str) -> list[str]:
    """Of the tables: everything with digits, in order."""
    cells = [cell.strip() for line in text.splitlines() if line.startswith("|") for cell in line.split("|")]
    return [cell for cell in cells if re.fullmatch(r"[\d.,–() ]+( ?(MB/s|MB|ms|s|/s))?", cell)]


def test_both_languages_have_the_same_shape() -> None:
    english, chinese = ENGLISH.read_text(encoding="utf-8"), CHINESE.read_text(encoding="utf-8")
    assert shape(english) == shape(chinese)
    assert table_rows(english) == table_rows(chinese)
    assert targets(english) == targets(chinese)
    assert figures(english) == figures(chinese) != []


def test_both_languages_have_the_same_code() -> None:
    english, chinese = (
        [block for block in blocks(page.read_text(encoding="utf-8")) if not PICTURE.search(" ".join(block))]
        for page in (ENGLISH, CHINESE)
    )
    assert english == chinese
    assert len(english) > 5


@pytest.mark.parametrize(
    "command",
    sorted({command for page in (ENGLISH, CONTRIBUTING) for command in commands(page.read_text(encoding="utf-8"))}),
)
def test_a_command_that_a_newcomer_reads_is_understood(command: str) -> None:
    assert wrong(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "make coffee",
        ".venv/bin/seckill sell",
        ".venv/bin/seckill up --kafak x:1",
        ".venv/bin/seckill report --htlm x",
        ".venv/bin/seckill faults run",
        ".venv/bin/python -m loadtest.rush --buyer 3",
        ".venv/bin/python -m loadtest.nothing",
        ".venv/bin/mqcore serve --listne x",
        ".venv/bin/pytest tests/units",
    ],
)
def test_a_command_that_is_none_is_found_out(command: str) -> None:
    assert wrong(command)


def test_the_faults_to_begin_with_are_cases() -> None:
    names = re.findall(r"seckill faults run ([a-z0-9-]+)`", ENGLISH.read_text(encoding="utf-8"))
    assert len(names) == 5
    for name in names:
        assert CASES[name].act is not None


def test_figures_are_those_of_the_generated_pages() -> None:
    """No number of a measurement but what stands in docs/generated."""
    generated = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "generated").glob("*.md"))
    for figure in figures(ENGLISH.read_text(encoding="utf-8")):
        assert re.sub(r" ?(MB/s|MB|ms|/s|s)$", "", figure) in generated, (
            f"the README says {figure}, and no measurement there does"
        )
