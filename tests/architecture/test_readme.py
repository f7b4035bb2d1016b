"""The README has the same content in both languages, and the commands of README and CONTRIBUTING.md work."""

from __future__ import annotations

import re

import pytest

import seckill.lab.faults.cases  # noqa: F401  # fills the table
from seckill.lab.faults.case import CASES
from tests.architecture.commands import blocks, commands, problem_with
from tests.architecture.links import ROOT

README_WORDS_MAX = 700
ENGLISH, CHINESE = (ROOT / name for name in ("README.md", "README.zh-CN.md"))
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
OTHERS = (
    "CONTRIBUTING.md", "mqcore/README.md", "docs/running.md", "docs/statistics.md", "docs/truncation.md",
    "docs/tour/follow-one-failover.md",
)  # fmt: skip
PAGES = (ENGLISH, *(ROOT / name for name in OTHERS))
PICTURE = re.compile(r"──▶")


def shape(text: str) -> list[int]:
    """The levels of the headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]


def table_rows(text: str) -> list[int]:
    """The number of lines of each table."""
    return [len(table.splitlines()) for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def targets(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.zh-CN.md"}


def figures(text: str) -> list[str]:
    """The table cells that contain only numbers and units, in order."""
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
    assert len(english) >= 3


@pytest.mark.parametrize(
    "command",
    sorted({command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))}),
)
def test_every_command_in_the_docs_is_accepted_by_its_tool(command: str) -> None:
    assert problem_with(command) == ""


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
        ".venv/bin/python -m tests.simulation.replication s1 --bug M99",
        ".venv/bin/pytest tests/units",
    ],
)
def test_a_wrong_command_is_noticed(command: str) -> None:
    assert problem_with(command)


def test_the_recommended_faults_exist() -> None:
    names = re.findall(r"seckill faults run ([a-z0-9-]+)`", ENGLISH.read_text(encoding="utf-8"))
    assert len(names) == 3
    for name in names:
        assert CASES[name].steps is not None


def test_figures_in_the_readme_come_from_generated_pages() -> None:
    """Every measurement in the README comes from docs/generated."""
    generated = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "generated").glob("*.md"))
    for page in (ENGLISH, BENCHMARKS):
        found = figures(page.read_text(encoding="utf-8"))
        assert found
        for figure in found:
            assert re.sub(r" ?(MB/s|MB|ms|/s|s)$", "", figure) in generated, (
                f"{page.name} says {figure}, which no generated page contains"
            )


def test_the_readme_is_short() -> None:
    words = len(ENGLISH.read_text(encoding="utf-8").split())
    assert words <= README_WORDS_MAX
