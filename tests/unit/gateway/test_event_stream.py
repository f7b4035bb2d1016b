"""The process that streams, spoken to as its server speaks to it: who is let in, what is told, when it ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from gateway import live, places, shown
from gateway.following import Followed
from gateway.live import Live
from gateway.outcomes import Shown
from gateway.places import Place, Standing
from gateway.streaming import STREAMS_OF_ADDRESS_MAX, STREAMS_OF_REQUEST_MAX
from seckill import tokens

REQUEST = UUID("01234567-89ab-8def-8123-456789abcdef")
DEADLINE_MS = int(time.time() * 1000)
STANDING = Standing("ann", Place("purchase.requests", 0, 5), DEADLINE_MS)
BARE = f"/api/v1/purchases/{REQUEST}/events"
SIGNED = f"place={places.sealed(REQUEST, STANDING)}"
OVER = STANDING._replace(deadline_ms=DEADLINE_MS - live.ADDRESS_S * 1000 - 1000)
PATIENCE_S = 30


class Reader:
    """One connection: what it was sent, and what it does."""

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
        async with asyncio.timeout(PATIENCE_S):
            while words not in self.text:
                self.news.clear()
                await self.news.wait()


def row(state: str, again: bool = False) -> Shown:
    return Shown(REQUEST, "ann", 1, state, None, None, again)


def news(row: Shown) -> str:
    return f"{REQUEST}|{row.version}|{shown.encode(row)}"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[UUID, Followed]:
    """What a look finds."""
    known: dict[UUID, Followed] = {}
    monkeypatch.setattr(live, "_follow", lambda request_id, standing: known.get(request_id))
    return known


def connect(server: Live, reader: Reader) -> asyncio.Task[None]:
    return asyncio.create_task(server(reader.scope, reader.receive, reader.send))


def asked(reader: Reader, server: Live | None = None) -> Reader:
    async def ask() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await (server or Live())(reader.scope, reader.receive, reader.send)

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
        (lambda: Reader(query=f"place={places.sealed(REQUEST, OVER)}"), 401),
        (lambda: Reader(query="", authorization="Bearer forged"), 401),
        (lambda: Reader(query="", authorization=f"Bearer {tokens.issue('bob')}"), 404),
        (lambda: Reader(path=BARE.replace("0123", "ffff")), 401),  # a place of another request
    ],
)
@pytest.mark.usefixtures("known")
def test_who_may_not_is_told_why(reader: Any, status: int, known: dict[UUID, Followed]) -> None:
    async def scene() -> Reader:
        made: Reader = reader()
        known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
        await Live()(made.scope, made.receive, made.send)
        return made

    refused = asyncio.run(scene())
    assert refused.status == status
    assert json.loads(refused.text)["status"] == status


def test_a_full_house_says_to_poll(known: dict[UUID, Followed]) -> None:
    refused = asked(Reader(), Live(most_streams=0))
    assert (refused.status, json.loads(refused.text)["type"]) == (503, "/problems/too-many-streams")
    assert (b"retry-after", b"5") in refused.sent[0]["headers"]


def test_a_request_has_few_streams_and_an_address_some_and_both_get_room_when_one_ends(
    known: dict[UUID, Followed], settings: Any
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.7")
    requests = [UUID(int=number) for number in range(STREAMS_OF_ADDRESS_MAX + 1)]

    def reader(request: UUID, address: str) -> Reader:
        known[request] = Followed(request, "ann", row("RESERVED"))
        made = Reader(f"/api/v1/purchases/{request}/events", f"place={places.sealed(request, STANDING)}")
        made.scope["client"] = ("10.0.0.7", 5000)
        made.scope["headers"] = [(b"x-forwarded-for", address.encode())]
        return made

    async def opened(server: Live, one: Reader) -> int:
        stream = connect(server, one)
        async with asyncio.timeout(PATIENCE_S):
            while not one.sent:
                one.news.clear()
                await one.news.wait()
        if one.status != 200:
            await stream
        return one.status

    async def scene() -> None:
        server = Live()
        same = [reader(requests[0], f"1.2.3.{number}") for number in range(STREAMS_OF_REQUEST_MAX + 1)]
        assert [await opened(server, one) for one in same] == [200] * STREAMS_OF_REQUEST_MAX + [503]
        many = [reader(request, "9.9.9.9") for request in requests[1:]]
        assert {await opened(server, one) for one in many} == {200}
        other = requests[1]
        assert await opened(server, reader(other, "9.9.9.9")) == 503
        assert await opened(server, reader(other, "9.9.9.8")) == 200
        many[5].gone.set()
        async with asyncio.timeout(PATIENCE_S):
            while not server.newsroom.has_room(other, "9.9.9.9"):
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
def test_what_is_too_long_or_unreadable_is_refused_before_it_is_parsed(
    query: str, headers: dict[str, str], status: int, known: dict[UUID, Followed]
) -> None:
    known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
    assert asked(Reader(query=query, **headers)).status == status


def test_a_websocket_is_closed_in_its_handshake() -> None:
    socket = Reader()
    socket.scope["type"] = "websocket"
    assert asked(socket).sent == [{"type": "websocket.close"}]


def test_each_step_is_told_as_it_is_heard_and_the_last_one_ends_it(known: dict[UUID, Followed]) -> None:
    async def scene() -> None:
        server, reader = Live(), Reader()
        known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        server.newsroom.spread(news(row("AWAITING_PAYMENT")))
        await reader.until('"AWAITING_PAYMENT"')
        server.newsroom.spread(news(row("EXPIRED")))
        await reader.until('"EXPIRED"')
        assert not stream.done(), "he is yet to be told that he may buy again"
        server.newsroom.spread("another|1|nothing of his\n" + news(row("EXPIRED", again=True)))
        async with asyncio.timeout(PATIENCE_S):
            await stream
        assert [line for line in reader.text.splitlines() if line.startswith("id:")] == [
            f"id: {row(state).version + again}"
            for state, again in (("RESERVED", 0), ("AWAITING_PAYMENT", 0), ("EXPIRED", 0), ("EXPIRED", 1))
        ]

    asyncio.run(scene())


def test_who_comes_back_is_told_only_what_is_newer(known: dict[UUID, Followed]) -> None:
    async def scene() -> None:
        server, reader = Live(), Reader(last_event_id=str(row("AWAITING_PAYMENT").version))
        known[REQUEST] = Followed(REQUEST, "ann", row("AWAITING_PAYMENT"))
        stream = connect(server, reader)
        await reader.until("retry:")
        server.newsroom.spread(news(row("RESERVED")))  # an echo
        server.newsroom.spread(news(row("PAID")))
        await reader.until('"PAID"')
        assert reader.text.count("data:") == 1
        reader.gone.set()
        async with asyncio.timeout(PATIENCE_S):
            await stream

    asyncio.run(scene())


def test_who_has_seen_the_end_is_told_to_stay_away(known: dict[UUID, Followed]) -> None:
    final = row("SOLD_OUT")
    known[REQUEST] = Followed(REQUEST, "ann", final)
    assert asked(Reader(last_event_id=str(final.version))).status == 204
    assert asked(Reader(last_event_id="nonsense")).status == 200
    assert asked(Reader()).status == 200


def test_a_subscription_that_comes_back_makes_everybody_look(known: dict[UUID, Followed]) -> None:
    async def scene() -> None:
        server, reader = Live(), Reader()
        known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        known[REQUEST] = Followed(REQUEST, "ann", row("PAID"))  # and nobody has heard of it
        server.newsroom.wake_all()
        await reader.until('"PAID"')
        reader.gone.set()
        await stream

    asyncio.run(scene())


def test_a_reader_that_goes_away_leaves_nothing_behind(known: dict[UUID, Followed]) -> None:
    async def scene() -> None:
        server, reader = Live(most_streams=1), Reader()
        known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        assert server.newsroom.is_full
        reader.gone.set()
        async with asyncio.timeout(PATIENCE_S):
            await stream
        assert not server.newsroom.is_full

    asyncio.run(scene())


def test_a_process_that_is_stopped_ends_its_streams(known: dict[UUID, Followed]) -> None:
    async def scene() -> None:
        server, reader = Live(), Reader()
        known[REQUEST] = Followed(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        said: list[str] = []

        async def receive() -> Mapping[str, Any]:
            return {"type": "lifespan.shutdown"}

        async def send(message: Mapping[str, Any]) -> None:
            said.append(message["type"])

        await server({"type": "lifespan"}, receive, send)
        async with asyncio.timeout(PATIENCE_S):
            await stream
        assert said == ["lifespan.shutdown.complete"]
        assert reader.sent[-1] == {"type": "http.response.body", "body": b""}

    asyncio.run(scene())
