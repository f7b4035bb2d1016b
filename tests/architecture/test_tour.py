"""The tour of docs/tour names places in the code; each of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STOP = re.compile(r"`([a-z_/]+\.py)(?::([A-Za-z_.]+))?`")


def stops() -> list[tuple[str, str]]:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    found = {match.groups(default="") for page in pages for match in STOP.finditer(page.read_text(encoding="utf-8"))}
    return sorted((path, symbol) for path, symbol in found if "/" in path)


def has(source: str, symbol: str) -> bool:
    """Whether the module defines the dotted name."""
    body = ast.parse(source).body
    for name in symbol.split("."):
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                body = node.body
                break
            if name in _assigned(node):
                body = []
                break
        else:
            return False
    return True


def _assigned(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize(("path", "symbol"), stops(), ids=lambda part: part or "-")
def test_every_stop_is_there(path: str, symbol: str) -> None:
    file = next((folder / path for folder in (ROOT, ROOT / "mqcore") if (folder / path).is_file()), None)
    assert file is not None, f"{path} is gone"
    assert not symbol or has(file.read_text(encoding="utf-8"), symbol), f"{path} has no {symbol}"


def test_the_tour_has_stops() -> None:
    assert len([symbol for _, symbol in stops() if symbol]) > 20


def test_a_symbol_that_is_gone_is_missed() -> None:
    source = "LIMIT = 1\nclass Log:\n    def append(self): ...\n"
    assert has(source, "Log.append")
    assert has(source, "LIMIT")
    assert not has(source, "Log.remove")
    assert not has(source, "append")
