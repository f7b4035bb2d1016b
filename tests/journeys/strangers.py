"""A sale in which a stranger tries everything."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

from tests.journeys.stack import Buyer, Stack

UNITS = 50
STALLED = 300
PATIENCE_S = 30
HALF_A_HEADER = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_A_BODY = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90\r\n\r\n{"


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
        self.events_url = str(accepted["events_url"])
        self.stalled = [self.connect() for _ in range(STALLED)]  # the last tests check them
        for connection in self.stalled:
            connection.sendall(HALF_A_BODY)
        self.slow = [self.connect() for _ in range(STALLED)]
        for connection in self.slow:
            connection.sendall(HALF_A_HEADER)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.stack.ports["gateway"]), timeout=PATIENCE_S)

    def send(self, request: bytes) -> bytes:
        """The first line of the response, or nothing if the connection was closed."""
        with self.connect() as connection:
            connection.sendall(request)
            return connection.recv(65_536).split(b"\r\n")[0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.stack.ports['gateway']}"

    def stock(self) -> list[tuple[Any, ...]]:
        return self.stack.query(
            "SELECT available, reserved, sold, version FROM inventory_stock WHERE sale_id = %s", self.sale
        )
