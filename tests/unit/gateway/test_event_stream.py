"""The event stream, driven through its ASGI interface: permissions, events, and the end of a stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from gateway import event_stream, event_stream_request, outcome_cache, signed_positions
from gateway.event_stream import EventStreams
from gateway.outcomes import PurchaseOutcome
from gateway.purchase_status import PurchaseStatus
from gateway.signed_positions import SignedPosition
from gateway.subscriptions import STREAMS_OF_ADDRESS_MAX, STREAMS_OF_REQUEST_MAX
from seckill.messaging.record_position import RecordPosition
from seckill.web import tokens
from seckill.web.purchase_states import PurchaseState

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
DEADLINE_MS = int(time.time() * 1000)
SIGNED_POSITION = SignedPosition("ann", RecordPosition("purchase.requests", 0, 5), DEADLINE_MS)
BARE = f"/api/v1/purchases/{REQUEST}/events"
SIGNED = f"place={signed_positions.sign_position(REQUEST, SIGNED_POSITION)}"
OVER = SIGNED_POSITION._replace(deadline_ms=DEADLINE_MS - event_stream_request.LINK_VALID_S * 1000 - 1000)
TIMEOUT_S = 30


class Reader:
    """A client's connection: its request, and everything it has received."""

    def __init__(self, path: str = BARE, query: str = SIGNED, method: str = "GET", **headers: str) -> None:
        self.scope: dict[str, Any] = {
            "type": "http", "path": path, "method": method, "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        self.sent: list[Mapping[str, Any]] = []
        self.news = asyncio.Event()
        self.gone = asyncio.Event()

    async def receive(self) -> Mapping[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)
        self.news.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent[1:]).decode()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while words not in self.text:
                self.news.clear()
                await self.news.wait()


def row(state: str, again: bool = False) -> PurchaseOutcome:
    return PurchaseOutcome(REQUEST, "ann", 1, PurchaseState(state), None, None, again)


def news(row: PurchaseOutcome) -> str:
    return f"{REQUEST}|{row.version}|{outcome_cache.encode_outcome(row)}"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[UUID, PurchaseStatus]:
    """The statuses that the stream finds, by request."""
    known: dict[UUID, PurchaseStatus] = {}
    monkeypatch.setattr(event_stream, "_fetch_status", lambda request_id, signed: known.get(request_id))
    return known


def connect(server: EventStreams, reader: Reader) -> asyncio.Task[None]:
    return asyncio.create_task(server(reader.scope, reader.receive, reader.send))


def asked(reader: Reader, server: EventStreams | None = None) -> Reader:
    async def ask() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await (server or EventStreams())(reader.scope, reader.receive, reader.send)

    asyncio.run(ask())
    return reader


@pytest.mark.parametrize(
    ("reader", "status"),
    [
        (lambda: Reader(path="/api/v1/purchases/nonsense/events"), 404),
        (lambda: Reader(path="/elsewhere"), 404),
        (lambda: Reader(method="POST"), 405),
        (lambda: Reader(query=""), 401),
        (lambda: Reader(query="place=forged.mac"), 401),
        (lambda: Reader(query=f"place={signed_positions.sign_position(REQUEST, OVER)}"), 401),
        (lambda: Reader(query="", authorization="Bearer forged"), 401),
        (lambda: Reader(query="", authorization=f"Bearer {tokens.issue_token('bob')}"), 404),
        (lambda: Reader(path=BARE.replace("0123", "ffff")), 401),  # the position of another request
    ],
)
@pytest.mark.usefixtures("known")
def test_a_refused_stream_says_why(reader: Any, status: int, known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> Reader:
        made: Reader = reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        await EventStreams()(made.scope, made.receive, made.send)
        return made

    refused = asyncio.run(scene())
    assert refused.status == status
    assert json.loads(refused.text)["status"] == status


def test_a_full_process_refuses_another_stream_and_suggests_polling(
    known: dict[UUID, PurchaseStatus],
) -> None:
    refused = asked(Reader(), EventStreams(streams_max=0))
    assert (refused.status, json.loads(refused.text)["type"]) == (503, "/problems/too-many-streams")
    assert (b"retry-after", b"5") in refused.sent[0]["headers"]


def test_streams_per_request_and_per_address_are_limited_and_an_ended_stream_makes_room(
    known: dict[UUID, PurchaseStatus], settings: Any
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.7")
    requests = [UUID(int=number) for number in range(STREAMS_OF_ADDRESS_MAX + 1)]

    def reader(request: UUID, address: str) -> Reader:
        known[request] = PurchaseStatus(request, "ann", row("RESERVED"))
        made = Reader(
            f"/api/v1/purchases/{request}/events", f"place={signed_positions.sign_position(request, SIGNED_POSITION)}"
        )
        made.scope["client"] = ("10.0.0.7", 5000)
        made.scope["headers"] = [(b"x-forwarded-for", address.encode())]
        return made

    async def opened(server: EventStreams, one: Reader) -> int:
        stream = connect(server, one)
        async with asyncio.timeout(TIMEOUT_S):
            while not one.sent:
                one.news.clear()
                await one.news.wait()
        if one.status != 200:
            await stream
        return one.status

    async def scene() -> None:
        server = EventStreams()
        same = [reader(requests[0], f"1.2.3.{number}") for number in range(STREAMS_OF_REQUEST_MAX + 1)]
        assert [await opened(server, one) for one in same] == [200] * STREAMS_OF_REQUEST_MAX + [503]
        many = [reader(request, "9.9.9.9") for request in requests[1:]]
        assert {await opened(server, one) for one in many} == {200}
        other = requests[1]
        assert await opened(server, reader(other, "9.9.9.9")) == 503
        assert await opened(server, reader(other, "9.9.9.8")) == 200
        many[5].gone.set()
        async with asyncio.timeout(TIMEOUT_S):
            while not server.hub.has_room(other, "9.9.9.9"):
                await asyncio.sleep(0)
        assert await opened(server, reader(other, "9.9.9.9")) == 200
        server._stopping.set()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("&".join(f"p{number}=1" for number in range(9)), {}, 400),
        ("place=" + "a" * 3000, {}, 400),
        (SIGNED, {"cookie": "a" * 9000}, 431),
        (SIGNED, {"x": "a" * 17_000}, 431),
        (SIGNED, {"x": "caf\u00e9"}, 400),
    ],
)
def test_oversized_or_unreadable_input_is_refused_before_parsing(
    query: str, headers: dict[str, str], status: int, known: dict[UUID, PurchaseStatus]
) -> None:
    known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
    assert asked(Reader(query=query, **headers)).status == status


def test_a_websocket_is_closed_during_its_handshake() -> None:
    socket = Reader()
    socket.scope["type"] = "websocket"
    assert asked(socket).sent == [{"type": "websocket.close"}]


def test_every_new_outcome_is_streamed_and_the_final_one_ends_the_stream(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = EventStreams(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        server.hub.dispatch(news(row("AWAITING_PAYMENT")))
        await reader.until('"AWAITING_PAYMENT"')
        server.hub.dispatch(news(row("EXPIRED")))
        await reader.until('"EXPIRED"')
        assert not stream.done(), "the buyer still has to learn that buying again is possible"
        server.hub.dispatch("another|1|an outcome of another request\n" + news(row("EXPIRED", again=True)))
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        assert [line for line in reader.text.splitlines() if line.startswith("id:")] == [
            f"id: {row(state).version + again}"
            for state, again in (("RESERVED", 0), ("AWAITING_PAYMENT", 0), ("EXPIRED", 0), ("EXPIRED", 1))
        ]

    asyncio.run(scene())


def test_a_reconnecting_client_receives_only_newer_outcomes(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = EventStreams(), Reader(last_event_id=str(row("AWAITING_PAYMENT").version))
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("AWAITING_PAYMENT"))
        stream = connect(server, reader)
        await reader.until("retry:")
        server.hub.dispatch(news(row("RESERVED")))  # older than what the client has
        server.hub.dispatch(news(row("PAID")))
        await reader.until('"PAID"')
        assert reader.text.count("data:") == 1
        reader.gone.set()
        async with asyncio.timeout(TIMEOUT_S):
            await stream

    asyncio.run(scene())


def test_a_client_that_has_the_final_outcome_is_told_to_stop_reconnecting(
    known: dict[UUID, PurchaseStatus],
) -> None:
    final = row("SOLD_OUT")
    known[REQUEST] = PurchaseStatus(REQUEST, "ann", final)
    assert asked(Reader(last_event_id=str(final.version))).status == 204
    assert asked(Reader(last_event_id="nonsense")).status == 200
    assert asked(Reader()).status == 200


def test_a_restored_subscription_makes_every_stream_read_its_status(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = EventStreams(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("PAID"))  # without a message
        server.hub.wake_all()
        await reader.until('"PAID"')
        reader.gone.set()
        await stream

    asyncio.run(scene())


def test_a_disconnected_client_frees_its_place(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = EventStreams(streams_max=1), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        assert server.hub.is_full
        reader.gone.set()
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        assert not server.hub.is_full

    asyncio.run(scene())


def test_a_stopping_process_ends_its_streams(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = EventStreams(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        answers: list[str] = []

        async def receive() -> Mapping[str, Any]:
            return {"type": "lifespan.shutdown"}

        async def send(message: Mapping[str, Any]) -> None:
            answers.append(message["type"])

        await server({"type": "lifespan"}, receive, send)
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        assert answers == ["lifespan.shutdown.complete"]
        assert reader.sent[-1] == {"type": "http.response.body", "body": b""}

    asyncio.run(scene())
