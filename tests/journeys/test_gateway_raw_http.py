"""The gateway's HTTP, byte for byte: about eighty raw requests, valid and malformed, against recorded responses.

Every server of the gateway must give the same status, headers and body, except for random values. After a
deliberate change, `RECORD=1 pytest tests/journeys/test_gateway_raw_http.py` writes raw_http.json again; read its diff.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KEPT = Path(__file__).with_name("raw_http.json")
ANSWER_SECONDS_MAX = 15
RANDOM = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"place=[A-Za-z0-9._~=%-]+"), "place=SIGNED"),
    (re.compile(r"127\.0\.0\.1:[0-9]+"), "HOST"),
    (re.compile(r"\b1[0-9]{12}\b"), "TIME"),
    (re.compile(r'"(position|eta_ms|offset|partition)":(null|[0-9]+)'), r'"\1":N'),
    (re.compile(r'"(available|reserved|sold|stock_version)":[0-9]+'), r'"\1":N'),
    (re.compile(r'"(ticket|token)":"[^"]+"'), r'"\1":"SIGNED"'),
)
VARYING_HEADERS = {
    "date",
    "set-cookie",
    "content-length",
    "etag",
    "x-now-ms",
    "x-poll-after-ms",
    "location",
    "x-request-id",
    "retry-after",
}

MISSING = "/api/v1/purchases/00000000-0000-8000-8000-000000000000"
HELLO = " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BUY = "POST /api/v1/sales/{open}/purchases HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ANN = "Authorization: Bearer {token}\r\n"
GET = " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def buying(key: str, body: str = "{{}}", *more: str, auth: str = ANN, ticket: str = "{ticket}") -> str:
    """A purchase with one thing changed."""
    lines = [f"Purchase-Ticket: {ticket}", f"Idempotency-Key: {key}", *more] if key else list(more)
    return (
        BUY + auth + "".join(f"{line}\r\n" for line in lines) + f"Content-Length: {len(body.format())}\r\n\r\n" + body
    )


CASES: dict[str, str] = {
    # purchases, in order: a ticket belongs to the first key that uses it
    "purchase": buying("first"),
    "purchase repeated": buying("first"),
    "purchase repeated with another body": buying("first", '{{"quantity": 2}}'),
    "purchase with a spent ticket": buying("second"),
    "purchase without sign-in": buying("k", auth=""),
    "purchase with a forged token": buying("k", auth="Authorization: Bearer nonsense\r\n"),
    "purchase with basic authorization": buying("k", auth="Authorization: Basic YTpi\r\n"),
    "purchase without a key": BUY + ANN + "Purchase-Ticket: {ticket}\r\nContent-Length: 2\r\n\r\n{{}}",
    "purchase with an empty key": buying("", "{{}}", "Idempotency-Key: "),
    "purchase with a blank in its key": buying("a b"),
    "purchase with a key of 65 characters": buying("k" * 65),
    "purchase without a ticket": BUY + ANN + "Idempotency-Key: none\r\nContent-Length: 2\r\n\r\n{{}}",
    "purchase with a forged ticket": buying("forged", ticket="nonsense"),
    "purchase with a very long ticket": buying("long", ticket="x" * 3000),
    "quantity zero": buying("q0", '{{"quantity": 0}}'),
    "quantity negative": buying("q1", '{{"quantity": -1}}'),
    "quantity fractional": buying("q2", '{{"quantity": 1.5}}'),
    "quantity as text": buying("q3", '{{"quantity": "1"}}'),
    "quantity true": buying("q4", '{{"quantity": true}}'),
    "quantity huge": buying("q5", '{{"quantity": 99999999999999999999}}'),
    "body not JSON": buying("b1", "nonsense"),
    "body a JSON list": buying("b2", "[1]"),
    "body deeply nested": buying("b3", "[" * 2000),
    "body not UTF-8": buying("b4", "\udcff\udcfe"),
    "body of 5,000 bytes": buying("b5", " " * 5000),
    "no content length": BUY + ANN + "Idempotency-Key: n\r\nPurchase-Ticket: {ticket}\r\n\r\n",
    "content length negative": BUY + ANN + "Content-Length: -1\r\n\r\n",
    "content length not a number": BUY + ANN + "Content-Length: ten\r\n\r\n",
    "content length twice": BUY + ANN + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
    "body in chunks": BUY + ANN + "Idempotency-Key: c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
    "expect 100-continue": buying("e1", "{{}}", "Expect: 100-continue"),
    "purchase in an unknown sale": buying("u").replace("{open}", "999999"),
    "purchase in a future sale": buying("f").replace("{open}", "{future}"),
    "purchase in a closed sale": buying("g").replace("{open}", "{closed}"),
    "purchase in sale zero": buying("z").replace("{open}", "0"),
    "purchase in a sale with a huge number": buying("h").replace("{open}", "9" * 40),
    "purchase with trace context": buying("first", "{{}}", "traceparent: 00-" + "a" * 32 + "-" + "b" * 16 + "-01"),
    "purchase with a broken trace context": buying("first", "{{}}", "traceparent: 00-zz"),
    "purchase with a forwarded address": buying("first", "{{}}", "X-Forwarded-For: 8.8.8.8"),
    "purchase with an underscore in a header": buying("first", "{{}}", "X_Forwarded_For: 8.8.8.8"),
    "purchase by GET": "GET /api/v1/sales/{open}/purchases" + GET,
    "purchase by PUT": BUY.replace("POST", "PUT") + ANN + "Content-Length: 2\r\n\r\n{{}}",
    "purchase with a trailing slash": buying("s").replace("/purchases", "/purchases/"),
    "purchase asked for OPTIONS": BUY.replace("POST", "OPTIONS") + "\r\n",
    # sales
    "sales": "GET /api/v1/sales" + GET,
    "sales with a query": "GET /api/v1/sales?x=1&x=2" + GET,
    "one sale": "GET /api/v1/sales/{open}" + GET,
    "one sale, HEAD": "HEAD /api/v1/sales/{open}" + GET,
    "an unknown sale": "GET /api/v1/sales/999999" + GET,
    "a sale that is not a number": "GET /api/v1/sales/abc" + GET,
    "sales by POST": "POST /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
    "sales over HTTP/1.0": "GET /api/v1/sales HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    "sales with Connection: close": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    # status
    "status of an unknown request": "GET {missing}" + HELLO + ANN + "\r\n",
    "status without sign-in": "GET {missing}" + GET,
    "status of what is not an id": "GET /api/v1/purchases/nonsense HTTP/1.1\r\nHost: 127.0.0.1\r\n" + ANN + "\r\n",
    "status with a forged place": "GET {missing}?place=x HTTP/1.1\r\n"
    "Host: 127.0.0.1\r\n" + ANN + "\r\n",
    # the protocol itself
    "no host": "GET /api/v1/sales HTTP/1.1\r\n\r\n",
    "an unknown host": "GET /api/v1/sales HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two hosts": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    "absolute form": "GET http://127.0.0.1/api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a header that is not ASCII": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Name: \u00e9\r\n\r\n",
    "a header of 20,000 bytes": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + "x" * 20_000 + "\r\n\r\n",
    "a hundred and fifty headers": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    + "".join(f"X-{number}: y\r\n" for number in range(150)) + "\r\n",
    "a cookie of 10,000 bytes": "GET /api/v1/sales" + HELLO + "Cookie: a=" + "x" * 10_000 + "\r\n\r\n",
    "a path of 9,000 bytes": "GET /" + "x" * 9000 + GET,
    "a path that is not ASCII": "GET /api/v1/\u00e9" + GET,
    "a path with an escape": "GET /api/v1/sale%73" + GET,
    "a path with dots": "GET /api/v1/../v1/sales" + GET,
    "a path with a double slash": "GET //api/v1/sales" + GET,
    "an unknown address": "GET /api/v1/nothing" + GET,
    "an unknown method": "BREW /api/v1/sales" + GET,
    "a method in lower case": "get /api/v1/sales" + GET,
    "not HTTP at all": "nonsense\r\n\r\n",
    "an upgrade to a WebSocket": "GET /api/v1/sales" + HELLO + "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "an upgrade to HTTP/2": "GET /api/v1/sales HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "two requests at once": "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /livez" + GET,
    "livez": "GET /livez" + GET,
    "a session": "POST /api/v1/sessions" + HELLO + "Content-Length: 14\r\n\r\n" + '{{"user":"eve"}}',
    "a session for a bad name": "POST /api/v1/sessions" + HELLO + "Content-Length: 12\r\n\r\n" + '{{"user":"!"}}',
    "a ticket without sign-in": "POST /api/v1/sales/{open}/ticket" + HELLO + "Content-Length: 0\r\n\r\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("raw") / "stack")
    try:
        stack.start()
        yield stack
    finally:
        assert stack.stop() == 0


@pytest.fixture(scope="module")
def answers(stack: Stack) -> dict[str, Any]:
    """All cases in turn, each on its own connection."""
    names = {"missing": MISSING, "open": str(stack.create_sale(50))}
    made = stack.run_command(
        "sale", "create", "--name", "Later", "--sku", "later", "--units", "5", "--opens-in", "3600"
    )
    names["future"] = str(json.loads(made)["sale"])
    names["closed"] = str(stack.create_sale(5))
    ann = Buyer(stack, "ann")
    names |= {"token": ann.token, "ticket": ann.ticket(int(names["open"]))}
    stack.run_command("sale", "close", names["closed"])
    stack.wait_until(
        lambda: stack.call("GET", f"/sales/{names['closed']}")[1].get("state") == "closed", "the sale to be closed"
    )
    known = {f"sales/{number}": f"sales/{{{name}}}" for name, number in names.items() if number.isdigit()}
    return {case: exchange(stack.ports["gateway"], text.format(**names), known) for case, text in CASES.items()}


def exchange(port: int, request: str, known: dict[str, str]) -> list[dict[str, Any]]:
    """The responses on one connection without random values; fewer if the server closes it."""
    content = request.encode("utf-8", "surrogateescape")
    has_body = not content.startswith(b"HEAD")
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX) as connection:
        connection.sendall(content)
        with connection.makefile("rb") as stream:
            answers = [answer for _ in range(content.count(b"GET /livez") or 1) for answer in read(stream, has_body)]
    return [normal(*answer, known) for answer in answers]


def read(stream: BinaryIO, has_body: bool) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """A final response and any interim responses before it."""
    while True:
        try:
            status = stream.readline().decode("latin-1").strip()
            lines = iter(stream.readline, b"\r\n") if status else iter(())
            pairs = (line.decode("latin-1").strip().partition(": ") for line in lines)
            headers = {name.lower(): value for name, _, value in pairs}
        except ConnectionResetError:
            return
        if not status:
            return
        is_final = " 100 " not in status
        length = int(headers.get("content-length", 0)) if has_body and is_final else 0
        yield status, headers, stream.read(length)
        if is_final:
            return


def normal(status: str, headers: dict[str, str], body: bytes, known: dict[str, str]) -> dict[str, Any]:
    """The text without values that differ between runs."""
    shown = {name: "*" if name in VARYING_HEADERS else value for name, value in sorted(headers.items())}
    text = body.decode("utf-8", "replace")
    for pattern, name in RANDOM:
        text = pattern.sub(name, text)
        shown = {header: pattern.sub(name, value) for header, value in shown.items()}
    for number, name in known.items():
        text = re.sub(rf"{re.escape(number)}\b", name, text)
    return {"status": status, "headers": shown, "body": "a page" if text.startswith("<!") else text}


def test_the_kept_answers_are_there_for_every_case(answers: dict[str, Any]) -> None:
    if os.environ.get("RECORD"):
        KEPT.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert set(json.loads(KEPT.read_text(encoding="utf-8"))) == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_raw_request_gets_its_kept_answer(answers: dict[str, Any], case: str) -> None:
    assert answers[case] == json.loads(KEPT.read_text(encoding="utf-8"))[case]
