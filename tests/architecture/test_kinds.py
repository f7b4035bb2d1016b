"""Every module of mqcore is of one kind, says which in its first line, and imports what that kind may.

Where order, time or failure decides something, the code takes them as arguments; then a test can choose them.
A module that names no kind (a port, a contract, a vocabulary) is held to the strictest rule.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CLOCKS_AND_CHANCE = frozenset({"asyncio", "time", "os", "random", "logging", "secrets", "socket", "uvloop"})
FORBIDDEN = {
    "codec": CLOCKS_AND_CHANCE,
    "machine": CLOCKS_AND_CHANCE | {"threading", "concurrent"},
    "store": frozenset({"asyncio", "uvloop", "time"}),
    "shell": frozenset[str](),
}
STRICTEST = FORBIDDEN["machine"]


def kind_of(source: str) -> str | None:
    """The kind that the docstring's first word names, if it names one."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    words = docstring.split(maxsplit=1)
    first = words[0].strip(":,.").lower() if words else ""
    return first if first in FORBIDDEN else None


def imported(source: str) -> set[str]:
    """The top-level names of everything the module imports when it runs (not what only the type checker sees)."""
    names: set[str] = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                for other in node.orelse:
                    self.visit(other)
            else:
                self.generic_visit(node)

        def visit_Import(self, node: ast.Import) -> None:
            names.update(alias.name.split(".")[0] for alias in node.names)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            names.add((node.module or "").split(".")[0])

    Visitor().visit(ast.parse(source))
    return names


def offences(source: str) -> set[str]:
    kind = kind_of(source)
    return imported(source) & (FORBIDDEN[kind] if kind else STRICTEST)


def modules() -> list[Path]:
    return sorted((ROOT / "mqcore").rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_a_docstring_and_imports_only_what_its_kind_may(path: Path) -> None:
    source = path.read_text()
    assert ast.get_docstring(ast.parse(source)), "no docstring: what kind of module is this, and what does it promise?"
    assert not offences(source), f"a {kind_of(source) or 'module of no kind'} must not import these"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Machine: x."""\nimport time', {"time"}),
        ('"""Machine: x."""\nfrom asyncio import Task', {"asyncio"}),
        ('"""Codec: x."""\nimport random', {"random"}),
        ('"""Store: x."""\nimport os', set()),
        ('"""Store: x."""\ndef f():\n    import time', {"time"}),
        ('"""The contract of x."""\nimport threading', {"threading"}),
        ('"""Shell: x."""\nimport asyncio, time', set()),
        ('"""Machine: x."""\nif TYPE_CHECKING:\n    import asyncio', set()),
    ],
)
def test_the_rule_finds_what_it_forbids_and_only_that(source: str, expected: set[str]) -> None:
    assert offences(source) == expected
