"""Every client of a Kafka cluster is opened with `client_options`, so that address and login come from one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("seckill", "gateway", "inventory", "orders", "notifications", "analytics", "loadtest")
CLIENTS = {"KafkaConsumer", "KafkaProducer", "KafkaAdminClient", "KafkaClient"}
OPTIONS = "client_options"


def bare_clients(source: str) -> list[int]:
    """Lines that open a kafka-python client without `**client_options(…)`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and name(node.func) in CLIENTS]
    return [call.lineno for call in calls if not any(is_options(each) for each in call.keywords)]


def name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_options(keyword: ast.keyword) -> bool:
    return keyword.arg is None and isinstance(keyword.value, ast.Call) and name(keyword.value.func) == OPTIONS


def test_every_client_is_opened_with_the_options_of_the_environment() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    opened = [path for path in paths if any(client + "(" in path.read_text() for client in CLIENTS)]
    assert len(opened) > 15, "where are the clients?"
    found = {str(path.relative_to(ROOT)): lines for path in opened if (lines := bare_clients(path.read_text()))}
    assert not found, f"these open a client without **{OPTIONS}(…): {found}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("KafkaConsumer(bootstrap_servers='a')", [1]),
        ("x = 1\nkafka.KafkaProducer('a')", [2]),
        ("KafkaAdminClient(**client_options('a'), client_id='x')", []),
        ("KafkaAdminClient(**options)", [1]),
        ("KafkaConsumer", []),
    ],
)
def test_the_search_finds_clients_without_options(source: str, lines: list[int]) -> None:
    assert bare_clients(source) == lines
