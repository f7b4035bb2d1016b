"""Whatever strangers send: no crash, nobody else's order, no stock touched. Schemathesis makes up what they send, from
the API's own description; half of it as that says, half of it not."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
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
from tests.journeys.stack import Buyer, Stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVICES = ("notify.sms", "notify.email", "notify.push", "celery", "notify.sweep", "live")
EXAMPLES = 12  # of each operation
CHECKS = [
    status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance,
]  # fmt: skip
OF_ANN = ("request_id", "order_id")
UNITS = 50
CHUNKED = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"

schema = schemathesis.openapi.from_dict(
    {**DOCUMENT, "paths": {path: told for path, told in DOCUMENT["paths"].items() if not path.endswith("/events")}}
)


class Scene:
    """A sale, Ann with an order in it, and Bob, who tries everything."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.sale = stack.create_sale(UNITS)
        self.ann, self.bob = Buyer(stack, "ann"), Buyer(stack, "bob")
        accepted = self.ann.buy(self.sale)[1]
        outcome = self.ann.wait_for(accepted["request_id"], "AWAITING_PAYMENT")
        self.refusals: Counter[int] = Counter()
        self.of_ann = {"request_id": accepted["request_id"], "order_id": outcome["order_id"]}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.stack.ports['gateway']}"

    def stock(self) -> list[tuple[Any, ...]]:
        return self.stack.query(
            "SELECT available, reserved, sold, version FROM inventory_stock WHERE sale_id = %s", self.sale
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
def test_nothing_that_bob_sends_breaks_it_or_shows_or_moves_what_is_anns(case: Any, scene: Scene) -> None:
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


def test_the_same_calls_of_ann_do_show_hers(scene: Scene) -> None:
    """The negative control: what Bob is refused is there, and most of what he sent had his own good token."""
    assert not scene.refusals or scene.refusals[404], "only strangers without a token were refused"
    order = scene.stack.call("GET", f"/orders/{scene.of_ann['order_id']}", token=scene.ann.token)
    assert (order[0], order[1]["request_id"]) == (200, scene.of_ann["request_id"])
    assert scene.ann.look(scene.of_ann["request_id"])["order_id"] == scene.of_ann["order_id"]


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
def test_bytes_that_are_hardly_http_end_in_a_refusal(request_bytes: bytes, scene: Scene) -> None:
    with socket.create_connection(("127.0.0.1", scene.stack.ports["gateway"]), timeout=15) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        head = connection.recv(4096).split(b"\r\n")[0]
    assert not head or b" 4" in head, head
    assert scene.stack.call("GET", "/sales")[0] == 200, "the others are served"
