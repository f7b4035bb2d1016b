"""The lines of code that matter in a lab, read from the source when they are printed, so they cannot become stale."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seckill.lab.labs.lab import Code

ROOT = Path(__file__).parents[3]


class CodeNotFound(LookupError):
    """A lab names lines that the source no longer has."""


class Excerpt(NamedTuple):
    path: str
    first_line: int
    lines: Sequence[str]


def read_excerpt(code: Code, root: Path = ROOT) -> Excerpt:
    lines = (root / code.path).read_text(encoding="utf-8").splitlines()
    begin, end = _lines_of(code, "\n".join(lines))
    if code.first:
        begin = _find(code, lines, code.first, begin, end)
    if code.last:
        end = _find(code, lines, code.last, begin, end) + 1
    return Excerpt(code.path, begin + 1, lines[begin:end])


def _lines_of(code: Code, source: str) -> tuple[int, int]:
    """The lines of a dotted name, from 0, with its decorators; the end is exclusive."""
    body = ast.parse(source).body
    found: ast.stmt | None = None
    for name in code.symbol.split("."):
        found = next((node for node in body if name in _names(node)), None)
        if found is None:
            raise CodeNotFound(f"{code.path} has no {code.symbol}")
        body = getattr(found, "body", [])
    assert found is not None and found.end_lineno is not None
    decorators = [each.lineno for each in getattr(found, "decorator_list", [])]
    return min([found.lineno, *decorators]) - 1, found.end_lineno


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _find(code: Code, lines: Sequence[str], text: str, begin: int, end: int) -> int:
    for number in range(begin, end):
        if text in lines[number]:
            return number
    raise CodeNotFound(f"{code.path}:{code.symbol} has no line with {text!r}")
