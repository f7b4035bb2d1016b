"""The whole document, served as /api/openapi.json for programs and /api/docs for people."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from gateway.api.paths import PATHS
from gateway.api.problems import PROBLEMS
from gateway.api.schemas import SCHEMAS

DESCRIPTION = """\
A purchase is requested, queued, decided, and becomes an order only then.

1. `POST /api/v1/sessions` returns a token. Send it as `Authorization: Bearer …`.
2. `GET /api/v1/sales/{sale_id}` returns the sale and `now_ms`. Count down by `now_ms`, not by the device's clock.
3. `POST /api/v1/sales/{sale_id}/ticket` returns a ticket, once the sale is open.
4. `POST /api/v1/sales/{sale_id}/purchases` with the ticket and an `Idempotency-Key` returns 202 and a position in the
   queue. After any failure (no answer, 429, 503), send the same request with the same key; it stays one purchase.
5. `GET` the `status_url` as often as `X-Poll-After-Ms` says, or listen to the `events_url`.
6. In state `AWAITING_PAYMENT`, call `POST /api/v1/orders/{order_id}/pay` before `pay_before_ms`, or `/cancel`.
"""

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Flash sale",
        "version": "1",
        "summary": "Everything that a buyer's client can do.",
        "description": DESCRIPTION,
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "servers": [{"url": "/"}],
    "tags": [
        {"name": "buyer", "description": "Signing in."},
        {"name": "sales", "description": "Sales and their stock, live."},
        {"name": "purchase", "description": "From the ticket to the outcome."},
        {"name": "orders", "description": "The buyer's own orders."},
        {"name": "provider", "description": "For the payment provider."},
        {"name": "operation", "description": "For monitoring."},
    ],
    "paths": PATHS,
    "components": {
        "schemas": SCHEMAS,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "From /api/v1/sessions."}},
    },
}


@require_GET
def openapi(request: HttpRequest) -> HttpResponse:
    return JsonResponse(DOCUMENT)


@require_GET
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "gateway/api.html", _page())


@require_GET
def problem(request: HttpRequest, kind: str) -> HttpResponse:
    """The page that the `type` of a problem links to."""
    found = PROBLEMS.get(kind)
    text = f"{kind}: this problem does not exist.\n" if found is None else f"{kind} ({found.status})\n\n{found.when}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8", status=404 if found is None else 200)


@lru_cache(maxsize=1)
def _page() -> dict[str, Any]:
    operations = [
        {
            "method": method.upper(),
            "path": path,
            "name": operation["operationId"],
            "summary": operation["summary"],
            "needs_token": "security" in operation,
            "parameters": operation.get("parameters", ()),
            "body": _example(operation.get("requestBody", {})),
            "answers": [
                {"status": status, "description": answer["description"], "example": _example(answer)}
                for status, answer in operation["responses"].items()
                if status < "400"
            ],
            "problems": [
                name
                for answer in operation["responses"].values()
                for name in answer.get("content", {}).get("application/problem+json", {}).get("examples", ())
            ],
        }
        for path, methods in PATHS.items()
        for method, operation in methods.items()
    ]
    problems = [{"name": name, "status": kind.status, "when": kind.when} for name, kind in PROBLEMS.items()]
    return {"document": DOCUMENT, "operations": operations, "problems": problems}


def _example(holder: dict[str, Any]) -> str:
    """The example of a body or an answer, as text; empty if it has none."""
    for content in holder.get("content", {}).values():
        if "example" in content:
            return str(content["example"])
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if name in SCHEMAS and "examples" in SCHEMAS[name]:
            return json.dumps(SCHEMAS[name]["examples"][0], indent=2)
    return ""
