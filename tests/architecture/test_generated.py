"""The pages in docs/generated say what the code says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from docs import generate, limits

ROOT = Path(__file__).parents[2]


def test_no_generated_page_is_stale() -> None:
    assert generate.stale() == [], "make docs"


def test_a_page_that_differs_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    generate.main([])
    assert generate.stale() == []
    page = tmp_path / "api-versions.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Produce", "Product"), encoding="utf-8")
    assert generate.stale() == ["api-versions.md"]


def names_of_tests(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, functions)}


@pytest.mark.parametrize(
    "limit", [limit for _, rows in limits.SECTIONS for limit in rows], ids=lambda limit: limit.name
)
def test_each_limit_has_a_value_and_a_test_that_is_there(limit: limits.Limit) -> None:
    path, _, name = limit.test.partition("::")
    assert name in names_of_tests(ROOT / path)
    assert limit.value > 0 and limit.at_the_limit


def test_a_limit_that_the_code_does_not_have_is_noticed() -> None:
    with pytest.raises(LookupError, match="NOT_THERE"):
        limits.constant("mqcore/server/connection.py", "NOT_THERE")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1 << 26, "bytes", "64 MiB"),
        (16384, "bytes", "16 KiB"),
        (32767, "bytes", "32,767 bytes"),
        (1500, "ms", "1.5 s"),
        (0.005, "s", "0.005 s"),
        (100_000, "", "100,000"),
    ],
)
def test_values_are_shown_in_the_units_that_people_use(value: float, unit: str, expected: str) -> None:
    assert limits.shown(limits.Limit("x", value, unit, "", "")) == expected
