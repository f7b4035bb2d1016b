"""The pages name places in the code, tests and faults; each of them is there. So a tour does not grow stale unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import seckill.lab.faults.cases  # noqa: F401  # fills the table
from seckill.lab.faults.case import CASES
from tests.architecture.links import ROOT, has, pages, stops

TECHNIQUES = ROOT / "docs" / "techniques.md"
TOURS = sorted((ROOT / "docs" / "tour").glob("*.md"))
HEADING = re.compile(r"^## (\d+) · .+$", re.MULTILINE)
FAULTS = re.compile(r"\bfaults?((?:[\s,]|and|which|the)*`[a-z0-9-]+`(?:(?:[\s,]|and)*`[a-z0-9-]+`)*)")


def sections(text: str) -> dict[int, str]:
    """The numbered stops of a tour."""
    heads = list(HEADING.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {int(head[1]): text[head.end() : end] for head, end in zip(heads, ends, strict=True)}


def faults(text: str) -> list[str]:
    return [name for names in FAULTS.findall(text) for name in re.findall(r"`([a-z0-9-]+)`", names)]


def gaps(text: str, folder: Path) -> list[str]:
    """Stops of a tour that name no place, or nothing that shows them."""
    found = []
    for number, section in sections(text).items():
        named = stops(section, folder)
        if not any(stop.symbol and not stop.is_test for stop in named):
            found.append(f"stop {number} names no place in the code")
        if not any(stop.is_test for stop in named):
            found.append(f"stop {number} names no test")
    return found


def idle_talk(text: str, folder: Path) -> list[str]:
    """Techniques of the table that nothing shows and whose absence is not explained."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or cells[0] == "technique":
            continue
        technique, where, shown, cost = cells
        if where.startswith(("not taken", "not there yet")):
            good = "](gaps.md)" in where or len(cost) > 20
        else:
            is_shown = (
                any(stop.is_test for stop in stops(shown, folder)) or faults(shown) or re.search(r"\bI\d+", shown)
            )
            good = bool(is_shown and len(cost) > 3)
        if not good:
            found.append(technique)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [missing for stop in stops(text, page.parent) if (missing := stop.missing())] == []
    assert [name for name in faults(text) if name not in CASES] == []


@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.stem)
def test_each_stop_of_a_tour_names_a_place_and_a_test(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert gaps(text, page.parent) == []
    assert list(sections(text)) == list(range(1, len(sections(text)) + 1)), "the stops are numbered without a gap"
    assert len(sections(text)) > 5


def test_the_tours_name_faults() -> None:
    assert len({name for page in TOURS for name in faults(page.read_text(encoding="utf-8"))}) > 10


def test_each_technique_is_shown_or_its_absence_is_explained() -> None:
    text = TECHNIQUES.read_text(encoding="utf-8")
    assert idle_talk(text, TECHNIQUES.parent) == []
    assert text.count("\n| ") > 50


def test_a_technique_that_nothing_shows_is_found() -> None:
    text = "\n".join(
        (
            "| technique | where | shown by | cost |",
            "|---|---|---|---|",
            "| a | `x/y.py:z` | – | much |",
            "| b | not taken | – | – |",
            "| c | here | fault `bots` | little |",
        )
    )
    assert idle_talk(text, TECHNIQUES.parent) == ["a", "b"]


def test_what_is_gone_is_missed() -> None:
    here = ROOT / "docs" / "tour"
    for text in (
        "[`gateway/views.py:sessions`](../../gateway/veiws.py)",
        "[`gateway/views.py:purchased`](../../gateway/views.py)",
        "[`gateway/sales.py:purchases`](../../gateway/views.py)",
        "[`test_nothing`](../../tests/architecture/test_tour.py)",
        "`gateway/views.py:purchased`",
        "`mqcore/log/log.py:Log.remove`",
    ):
        assert [stop for stop in stops(text, here) if stop.missing()], text
    good = "[`gateway/views.py:sessions`](../../gateway/views.py) `log/log.py:Log.append` `gateway/views.py`"
    assert [stop.missing() for stop in stops(good, here)] == ["", "", ""]


def test_a_stop_without_a_place_or_a_test_is_found() -> None:
    text = "## 1 · A\n`gateway/views.py:sessions`\n## 2 · B\n[`test_x`](../../tests/x.py)\n"
    assert gaps(text, ROOT / "docs" / "tour") == ["stop 1 names no test", "stop 2 names no place in the code"]


def test_faults_are_found_in_a_sentence() -> None:
    text = "… and the faults `poison`,\n`bots` and `chaos`. The fault `backlog`, which the `other` …"
    assert faults(text) == ["poison", "bots", "chaos", "backlog"]


def test_a_symbol_that_is_gone_is_missed() -> None:
    source = "LIMIT = 1\nclass Log:\n    def append(self): ...\n"
    assert has(source, "Log.append")
    assert has(source, "LIMIT")
    assert not has(source, "Log.remove")
    assert not has(source, "append")
