"""What the pages of this repository say of places in the code, ready to be followed.

A link whose text is code and whose target is a module, [`gateway/views.py:purchases`](…/views.py) or [`test_…`](…),
names a symbol of it. Code without a link, `gateway/views.py:purchases`, does, too.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

LINKED = re.compile(r"\[`([^`]+)`\]\(([^)\s]+\.py)\)")
NAMED = re.compile(r"(?<!\[)`([a-z0-9_]+(?:/[a-z0-9_]+)+\.py)(?::([A-Za-z0-9_.]+))?`")


class Stop(NamedTuple):
    """A place that a page names; `symbol` is empty where it names the whole module."""

    path: Path
    symbol: str
    said: str

    @property
    def is_test(self) -> bool:
        return self.symbol.startswith("test_")

    def missing(self) -> str:
        """What is not there; empty: it is."""
        if not self.path.is_file():
            return f"{self.said}: there is no {self.path}"
        if self.said.partition(":")[0].endswith(".py") and not str(self.path).endswith(self.said.partition(":")[0]):
            return f"{self.said} leads to {self.path}"
        return (
            f"{self.said}: {self.path} has no {self.symbol}" if self.symbol and not _has(self.path, self.symbol) else ""
        )


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def stops(text: str, folder: Path) -> list[Stop]:
    """All that a text names, as seen from the folder of its page."""
    found = []
    for said, target in LINKED.findall(text):
        path, _, symbol = said.partition(":")
        found.append(Stop((folder / target).resolve(), symbol if path.endswith(".py") else said, said))
    for path, symbol in NAMED.findall(text):
        file = next((base / path for base in (ROOT, ROOT / "mqcore") if (base / path).is_file()), ROOT / path)
        found.append(Stop(file, symbol, f"{path}:{symbol}" if symbol else path))
    return found


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


@lru_cache(maxsize=1024)
def _has(path: Path, symbol: str) -> bool:
    return has(path.read_text(encoding="utf-8"), symbol)


def _assigned(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}
