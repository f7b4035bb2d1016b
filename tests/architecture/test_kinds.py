"""Every module of mqcore has a kind. The first word of its docstring names it, and the kind limits its imports.

Code whose behaviour depends on order, time or failure takes them as arguments, so a test can choose them. Modules that
have no behaviour (a port, values, a table) and the modules of the APIs follow the strictest rule.
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
WITHOUT_BEHAVIOUR = frozenset({"port", "values", "table"})


def first_word(source: str) -> str:
    words = (ast.get_docstring(ast.parse(source)) or "").split(maxsplit=1)
    return words[0].strip(":,.") if words else ""


def kind_of(source: str) -> str | None:
    """The kind that the first word of the docstring names; None for other modules."""
    kind = first_word(source).lower()
    return kind if kind in FORBIDDEN else None


def api_name(source: str) -> str | None:
    """The name in `API = Api(key, name, …)`."""
    for node in ast.parse(source).body:
        match node:
            case ast.Assign([ast.Name("API")], ast.Call(ast.Name("Api"), [_, ast.Constant(str(name)), *_])):
                return name
    return None


def says_what_it_is(source: str, is_package: bool) -> bool:
    """Whether the first word is a kind, or the API that the module implements. Packages have a sign of their own."""
    word = first_word(source)
    return is_package or word.lower() in FORBIDDEN.keys() | WITHOUT_BEHAVIOUR or word == api_name(source)


def imported(source: str) -> set[str]:
    """The top-level names of what the module imports at run time, without imports for the type checker only."""
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


def forbidden_imports(source: str) -> set[str]:
    kind = kind_of(source)
    return imported(source) & (FORBIDDEN[kind] if kind else STRICTEST)


def modules() -> list[Path]:
    return sorted((ROOT / "mqcore").rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_names_its_kind_and_imports_only_what_its_kind_may(path: Path) -> None:
    source = path.read_text()
    assert first_word(source), "no docstring"
    assert says_what_it_is(source, path.name == "__init__.py"), f"the docstring begins with {first_word(source)!r}"
    assert not forbidden_imports(source), f"a {kind_of(source) or 'module of no kind'} must not import these"


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
def test_the_import_rule_finds_exactly_the_forbidden_imports(source: str, expected: set[str]) -> None:
    assert forbidden_imports(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Machine: x."""', True),
        ('"""Port: x."""', True),
        ('"""Fetch: x."""\nAPI = Api(1, "Fetch", 4, 16)', True),
        ('"""Fetches: x."""\nAPI = Api(1, "Fetch", 4, 16)', False),
        ('"""What x does."""', False),
        ("x = 1", False),
    ],
)
def test_the_rule_of_the_first_word_accepts_kinds_and_the_name_of_the_api(source: str, expected: bool) -> None:
    assert says_what_it_is(source, is_package=False) is expected
