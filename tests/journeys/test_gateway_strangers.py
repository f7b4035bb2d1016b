"""Arbitrary requests cause no crash, reveal no other buyer's order and change no stock.

Schemathesis generates the requests from the API's description; half of them are valid.
"""

from __future__ import annotations

import hashlib
import hmac
import http.cookiejar
import json
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway.api.document import DOCUMENT
from gateway.api.problems import PROBLEMS
from seckill.config.environment import DEVELOPMENT_SECRET
from tests.journeys.stack import Buyer, Stack
from tests.journeys.strangers import PATIENCE_S, Scene

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVICES = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep", "reports")
EXAMPLES = 12  # per operation
CHECKS = [
    status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance,
]  # fmt: skip
OF_ANN = ("request_id", "order_id")
CHUNKED = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"

schema = schemathesis.openapi.from_dict(
    {**DOCUMENT, "paths": {path: told for path, told in DOCUMENT["paths"].items() if not path.endswith("/events")}}
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scales = [part for name in SERVICES for part in ("--scale", f"{name}=0")]
    stack = Stack(tmp_path_factory.mktemp("stack"), *scales, "--scale", "inventory=1", "--scale", "orders=1")
    stack.start()
    yield Scene(stack)
    assert stack.stop() == 0


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_no_request_of_bob_crashes_the_gateway_or_shows_or_changes_anns_data(case: Any, scene: Scene) -> None:
    before = scene.stock()
    aims_at_ann = sum(map(ord, str(case.body))) % 2 == 0
    for name in OF_ANN:
        if aims_at_ann and case.path_parameters and name in case.path_parameters:
            case.path_parameters[name] = scene.of_ann[name]
    if case.path_parameters and "sale_id" in case.path_parameters:
        case.path_parameters["sale_id"] = scene.sale
    response = case.call(base_url=scene.url, headers={"Authorization": f"Bearer {scene.bob.token}"}, timeout=15)
    assert response.status_code < 500 or response.status_code == 503
    if response.status_code == 503:
        kind = response.json()["type"].rpartition("/")[2]
        assert PROBLEMS[kind].status == 503
    assert not any(mine in response.text for mine in scene.of_ann.values() if "/purchases" not in case.path)
    if aims_at_ann and case.path_parameters and any(name in case.path_parameters for name in OF_ANN):
        scene.refusals[response.status_code] += 1
        assert response.status_code in (400, 401, 404, 405)
    assert scene.stock() == before
    case.validate_response(response, checks=CHECKS)


def test_the_same_requests_by_ann_do_show_her_data(scene: Scene) -> None:
    """The control: what Bob was refused exists, and most of his requests had his own valid token."""
    assert not scene.refusals or scene.refusals[404], "only requests without a token were refused"
    order = scene.stack.call("GET", f"/orders/{scene.of_ann['order_id']}", token=scene.ann.token)
    assert (order[0], order[1]["request_id"]) == (200, scene.of_ann["request_id"])
    assert scene.ann.poll(scene.of_ann["request_id"])["order_id"] == scene.of_ann["order_id"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n\xff\xfe\xfd\xfc\xfb",
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n{}",
        CHUNKED + b'e\r\n{"user":"ann"}\r\n0\r\n\r\n',
        CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
        b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20000\r\n\r\n" + b"[" * 20000,
        b"GET /api/v1/purchases/%00%ff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/v1/sales HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
        b"GET /api/v1/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \xe9\xe9.\xff\r\n\r\n",
        b"GET /api/v1/sales/" + b"9" * 5000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_bytes_that_are_almost_http_are_refused(request_bytes: bytes, scene: Scene) -> None:
    with socket.create_connection(("127.0.0.1", scene.stack.ports["gateway"]), timeout=15) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        head = connection.recv(4096).split(b"\r\n")[0]
    assert not head or b" 4" in head, head
    assert scene.stack.call("GET", "/sales")[0] == 200, "the others are served"


# ── limits ───────────────────────────────────────────────────────────────────────────────────────

ESCAPED = b'a="' + b'\\"' * 2000 + b'"'


def get(path: str, *headers: bytes, method: str = "GET") -> bytes:
    lines = (f"{method} {path} HTTP/1.1".encode(), b"Host: 127.0.0.1", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n"


@pytest.mark.parametrize("path", ["/", "/api/v1/sales", "/console/login", "/livez"])
@pytest.mark.parametrize(
    "headers",
    [
        [b"Cookie: " + ESCAPED],
        [b"Cookie: " + ESCAPED * 8],
        [b"Cookie: a=" + b"a" * 9000],
        [b"Cookie: a=" + b"a" * 5000, b"Cookie: b=" + b"b" * 5000],
        [b"X-Many: " + b"v" * 480] * 40,
        [b"X-Many: v"] * 120,
    ],
    ids=["escaped", "escaped and long", "long", "two", "repeated", "too many"],
)
def test_headers_and_cookies_that_are_too_long_get_431(path: str, headers: list[bytes], scene: Scene) -> None:
    assert b" 431 " in scene.send(get(path, *headers))


def test_a_header_that_is_not_ascii_gets_400_and_cannot_fake_an_address(scene: Scene) -> None:
    assert b" 400 " in scene.send(get("/api/v1/sales", b"X-Forwarded-For: 9.9.9.9\xff"))


def test_http_2_and_websockets_are_refused(scene: Scene) -> None:
    assert scene.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))[:9] in (
        b"", b"HTTP/1.1 ",
    )  # fmt: skip
    upgrade = [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13",
               b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]  # fmt: skip
    assert b" 400 " in scene.send(get("/readyz", *upgrade))
    log = (scene.stack.folder / "logs" / "gateway.log").read_text()
    assert "Traceback" not in log


def test_a_purchase_may_have_four_streams_and_further_clients_are_told_to_poll(scene: Scene) -> None:
    streams = [scene.connect() for _ in range(10)]
    for stream in streams:
        stream.sendall(get(scene.events_url))
    answers = Counter(stream.recv(16) for stream in streams)
    assert answers == {b"HTTP/1.1 200 OK\r": 4, b"HTTP/1.1 503 Ser": 6}
    assert b" 200 " in scene.send(get("/readyz"))
    for stream in streams:
        stream.close()


def test_one_address_cannot_take_all_units(scene: Scene) -> None:
    sale = scene.stack.create_sale(20)

    def tried(name: str, address: str) -> int:
        buyer = Buyer(scene.stack, name)
        request = urllib.request.Request(
            f"{scene.url}/api/v1/sales/{sale}/purchases", b"{}",
            {"Authorization": f"Bearer {buyer.token}", "Purchase-Ticket": buyer.ticket(sale), "Idempotency-Key": "k",
             "Content-Type": "application/json", "X-Forwarded-For": address},
        )  # fmt: skip
        return status(request)

    assert Counter(tried(f"hoarder-{number}", "9.8.7.6") for number in range(12)) == {202: 5, 429: 7}
    assert tried("somebody-else", "9.8.7.5") == 202


def status(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_callback_signed_with_the_published_key_makes_nothing_paid(scene: Scene) -> None:
    """The stack and the provider use another key, so the published one must not be accepted."""
    order = scene.of_ann["order_id"]
    control = json.dumps({"mode": "never", "order": order}).encode()
    provider = f"http://127.0.0.1:{scene.stack.ports['provider']}/control"
    assert status(urllib.request.Request(provider, control, {"Content-Type": "application/json"})) == 200
    payment = scene.stack.call("POST", f"/orders/{order}/pay", token=scene.ann.token)[1]["payment_id"]
    body = json.dumps({"id": "made-up", "payment": payment, "kind": "captured"}).encode()
    at_s = int(time.time())
    digest = hmac.new(DEVELOPMENT_SECRET.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    signed = {"Content-Type": "application/json", "X-Provider-Signature": f"t={at_s},v1={digest}"}
    assert status(urllib.request.Request(f"{scene.url}/api/v1/payments/callback", body, signed)) == 401
    assert scene.stack.call("GET", f"/orders/{order}", token=scene.ann.token)[1]["state"] == "PENDING_PAYMENT"


def test_most_parallel_password_guesses_with_made_up_addresses_are_refused_unchecked(scene: Scene) -> None:
    scene.stack.run_command("manage", "operator", "root")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    login = f"{scene.url}/console/login"
    page = browser.open(login, timeout=PATIENCE_S).read().decode()
    token = re.findall(r'csrfmiddlewaretoken" value="(\w+)"', page)[0]

    def guess(number: int, address: str = "") -> int:
        form = {"csrfmiddlewaretoken": token, "username": "root", "password": f"guess-{number}"}
        headers = {"X-Forwarded-For": address} if address else {}
        try:
            request = urllib.request.Request(login, urllib.parse.urlencode(form).encode(), headers)
            return int(browser.open(request, timeout=PATIENCE_S).status)
        except urllib.error.HTTPError as error:
            return error.code

    with ThreadPoolExecutor(40) as threads:
        at_once = Counter(threads.map(guess, range(40)))
    one_by_one = Counter(guess(number, f"9.9.{number}.1") for number in range(20))
    assert set(at_once | one_by_one) == {403, 429}
    assert at_once[403] <= 5 and one_by_one[403] <= 10


def test_buyers_who_hang_up_leave_no_place_taken_and_no_error_in_the_log(scene: Scene) -> None:
    sale = scene.stack.create_sale(50)
    buyers = [Buyer(scene.stack, f"hangs-up-{number}") for number in range(50)]
    requests = [
        f"POST /api/v1/sales/{sale}/purchases HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {buyer.token}\r\n"
        f"Idempotency-Key: once\r\nPurchase-Ticket: {buyer.ticket(sale)}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        for buyer in buyers
    ]
    for request in requests:
        with scene.connect() as connection:
            connection.sendall(request)

    def is_idle() -> bool:
        with urllib.request.urlopen(f"{scene.url}/metrics", timeout=PATIENCE_S) as page:
            return b"\nseckill_purchases_waiting 0.0\n" in page.read()

    scene.stack.wait_until(is_idle, "all places to be free")
    assert buyers[0].buy(sale, key="once")[0] == 202, "the same request, whether or not it was sent before"
    log = (scene.stack.folder / "logs" / "gateway.log").read_text()
    assert "Traceback" not in log and "raised an exception" not in log


def test_half_a_header_is_cut_off_after_a_while(scene: Scene) -> None:
    for connection in scene.slow:
        with connection:
            assert connection.recv(4096)[:12] in (b"", b"HTTP/1.1 408")


def test_half_a_body_gets_408_and_frees_the_connection(scene: Scene) -> None:
    """This must be the last test of the file, because the connections were opened before the first."""
    assert b" 200 " in scene.send(get("/livez"))
    for connection in scene.stalled:
        with connection:
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
            assert answer.startswith(b"HTTP/1.1 408 "), answer[:100]
