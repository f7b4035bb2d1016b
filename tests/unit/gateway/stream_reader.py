"""A client of the event stream, in the place of Granian."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from gateway import event_stream, outcome_cache, signed_positions
from gateway.outcomes import PurchaseOutcome
from gateway.routes import Gateway
from gateway.signed_positions import SignedPosition
from gateway.subscriptions import StreamHub
from seckill.messaging.record_position import RecordPosition
from seckill.web.purchase_states import PurchaseState
from tests.gateway_loop import Scope

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
DEADLINE_MS = int(time.time() * 1000)
SIGNED_POSITION = SignedPosition("ann", RecordPosition("purchase.requests", 0, 5), DEADLINE_MS)
BARE = f"/api/v1/purchases/{REQUEST}/events"
SIGNED = f"place={signed_positions.sign_position(REQUEST, SIGNED_POSITION)}"
OVER = SIGNED_POSITION._replace(deadline_ms=DEADLINE_MS - event_stream.LINK_VALID_S * 1000 - 1000)
TIMEOUT_S = 30


class Reader:
    """A client's connection: its request, and everything it has received."""

    def __init__(
        self, path: str = BARE, query: str = SIGNED, method: str = "GET", client: str = "127.0.0.1:5000", **headers: str
    ) -> None:
        pairs = [("host", "testserver"), *((name.replace("_", "-"), value) for name, value in headers.items())]
        self.scope = Scope(method, f"{path}?{query}", pairs, client=client)
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.text = ""
        self.news = asyncio.Event()
        self.gone = asyncio.Event()

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.text = status, headers, body.decode()
        self.news.set()

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Reader:
        self.status, self.headers = status, headers
        self.news.set()
        return self

    async def send_str(self, text: str) -> None:
        self.text += text
        self.news.set()

    async def client_disconnect(self) -> None:
        await self.gone.wait()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while words not in self.text:
                self.news.clear()
                await self.news.wait()


def row(state: str, again: bool = False) -> PurchaseOutcome:
    return PurchaseOutcome(REQUEST, "ann", 1, PurchaseState(state), None, None, again)


def news(row: PurchaseOutcome) -> str:
    return f"{REQUEST}|{row.version}|{outcome_cache.encode_outcome(row)}"


def make_server(streams_max: int = 1000) -> Gateway:
    server = Gateway(connections_max=100)
    server._streams, server._loop = StreamHub(streams_max), asyncio.get_running_loop()
    return server


def connect(server: Gateway, reader: Reader) -> asyncio.Task[None]:
    return asyncio.create_task(server.__rsgi__(reader.scope, reader))


def asked(reader: Reader, streams_max: int = 1000) -> Reader:
    async def ask() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await connect(make_server(streams_max), reader)

    asyncio.run(ask())
    return reader
