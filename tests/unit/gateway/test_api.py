"""The API document matches the code: it lists every route and every problem, and nothing else."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver
from openapi_spec_validator import validate

from gateway.api.document import DOCUMENT, docs, openapi, problem
from gateway.api.paths import PATHS
from gateway.api.problems import PROBLEMS
from gateway.api.schemas import SCHEMAS
from gateway.routes import Gateway

ROOT = Path(__file__).parents[3]
NOT_OF_THE_INTERFACE = re.compile(
    r"/(api/(docs|openapi\.json)|problems/|$|console|start|shop|static|i18n|orders|p/|metrics|admin)"
)
SPEAKERS = [*ROOT.glob("gateway/**/*.py"), *ROOT.glob("orders/**/*.py"), *ROOT.glob("seckill/web/*.py")]


def routes(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        route = before + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes(pattern, route)


def raised(path: Path) -> Iterator[tuple[str, int]]:
    """(kind, status) of every `Problem(status, "kind", …)`, and of the tables of (status, "kind", detail)."""
    for node in ast.walk(ast.parse(path.read_text())):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
            values = node.args
        elif isinstance(node, ast.Tuple) and len(node.elts) == 3:
            values = node.elts
        match values:
            case [ast.Constant(value=int(status)), ast.Constant(value=str(kind)), *_]:
                yield kind, status


def test_the_document_is_valid_openapi() -> None:
    validate(DOCUMENT)


def test_a_document_with_a_dangling_reference_is_invalid() -> None:
    broken = json.loads(json.dumps(DOCUMENT).replace("#/components/schemas/Ticket", "#/components/schemas/Nowhere"))
    with pytest.raises(Exception, match="Nowhere"):
        validate(broken)


def test_the_document_lists_exactly_the_routes_that_exist() -> None:
    of_django = {route for route in routes(get_resolver()) if not NOT_OF_THE_INTERFACE.match(route)}
    of_the_loop = Gateway(connections_max=100).routes
    assert set(PATHS) == of_django | set(of_the_loop)
    assert all(method.lower() in PATHS[address] for address, (method, _) in of_the_loop.items())


def test_the_document_lists_exactly_the_problems_that_are_raised() -> None:
    found = {pair for path in SPEAKERS for pair in raised(path)}
    assert len(found) > 20, "the search finds nothing"
    told = {(kind, entry.status) for kind, entry in PROBLEMS.items()}
    assert found <= told, "raised, but not listed"
    of_django = {"bad-request", "no-such-address", "wrong-method", "internal"}
    assert {kind for kind, _ in told - found} <= of_django, "listed, but never raised"


def test_every_problem_is_listed_at_some_address() -> None:
    text = json.dumps(PATHS)
    everywhere = {"no-such-address", "wrong-method"}
    assert [kind for kind in PROBLEMS if f"/problems/{kind}" not in text and kind not in everywhere] == []


def test_every_schema_has_an_example_with_what_it_requires() -> None:
    for name, schema in SCHEMAS.items():
        if name in ("Problem", "Orders"):  # listed where they occur
            continue
        [example] = schema["examples"]
        assert set(schema["required"]) <= set(example) <= set(schema["properties"]), name


def test_people_and_programs_can_read_it(rf: RequestFactory) -> None:
    told: dict[str, Any] = json.loads(openapi(rf.get("/api/openapi.json")).content)
    assert told["openapi"] == "3.1.0"
    page = docs(rf.get("/api/docs")).content.decode()
    for operation in ("signIn", "buy", "streamPurchase", "queue-unknown"):
        assert f'id="{operation}"' in page
    assert "://" not in page.replace("http://www.w3.org", ""), "the page loads nothing from other hosts"


def test_the_type_of_a_problem_leads_somewhere(rf: RequestFactory) -> None:
    assert b"last unit" in problem(rf.get("/problems/sold-out"), "sold-out").content
    assert problem(rf.get("/problems/nonsense"), "nonsense").status_code == 404
