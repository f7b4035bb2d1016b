"""The checker believes nobody: it imports no service, and shares with them a table of topics and addresses."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "seckill" / "consistency"
SHARED = {"seckill.topics", "seckill.environment", "seckill.binding"}
OURS = ("gateway", "inventory", "orders", "notifications", "loadtest", "mqcore", "seckill", "django")


def imported(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def offences(source: str) -> set[str]:
    ours = {name for name in imported(source) if name.split(".")[0] in OURS}
    return {
        name for name in ours - SHARED if name != "seckill.consistency" and not name.startswith("seckill.consistency.")
    }


def test_no_module_of_the_report_imports_a_service() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 20
    assert {path.name: found for path in modules if (found := offences(path.read_text()))} == {}


def test_the_rule_finds_what_it_forbids() -> None:
    assert offences("from inventory.models import Stock") == {"inventory.models"}
    assert offences("def late():\n    import orders.events") == {"orders.events"}
    assert offences("from seckill.streams.loop import Loop\nfrom seckill.topics import TOPICS") == {
        "seckill.streams.loop"
    }
