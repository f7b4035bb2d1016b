"""The report imports no service; it shares only the table of topics, record positions, and how to reach servers."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "seckill" / "report"
SHARED = {
    "seckill.messaging.record_position",
    "seckill.messaging.topics",
    "seckill.config.environment",
    "seckill.config.kafka_clients",
    "seckill.config.kafka_security",
    "seckill.config.redis_address",
    "seckill.resilience",
    "seckill.config.public_bind",
}
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
    return {name for name in ours - SHARED if name != "seckill.report" and not name.startswith("seckill.report.")}


def test_no_module_of_the_report_imports_a_service() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert len(modules) > 20
    assert {path.name: found for path in modules if (found := offences(path.read_text()))} == {}


def test_the_import_rule_notices_a_forbidden_import() -> None:
    assert offences("from inventory.models import Stock") == {"inventory.models"}
    assert offences("def late():\n    import orders.events") == {"orders.events"}
    assert offences("from seckill.messaging.consume_loop import Loop\nfrom seckill.messaging.topics import TOPICS") == {
        "seckill.messaging.consume_loop"
    }
