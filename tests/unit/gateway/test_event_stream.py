"""The event stream: permissions, events, and the end of a stream."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from gateway import event_stream, purchase_status, signed_positions
from gateway.outcomes import PurchaseOutcome
from gateway.purchase_status import PurchaseStatus
from gateway.routes import Gateway
from gateway.signed_positions import SignedPosition
from gateway.subscriptions import STREAMS_OF_ADDRESS_MAX, STREAMS_OF_REQUEST_MAX, StreamHub, Subscriber
from seckill.web import tokens
from tests.unit.gateway.stream_reader import (
    BARE,
    DEADLINE_MS,
    OVER,
    REQUEST,
    SIGNED_POSITION,
    TIMEOUT_S,
    Reader,
    asked,
    connect,
    make_server,
    news,
    row,
)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[UUID, PurchaseStatus]:
    """The statuses that the stream finds, by request."""
    known: dict[UUID, PurchaseStatus] = {}

    async def fetch_status(request_id: UUID, signed: SignedPosition | None) -> PurchaseStatus | None:
        return known.get(request_id)

    monkeypatch.setattr(purchase_status, "fetch_status", fetch_status)
    return known


@pytest.mark.parametrize(
    ("reader", "status"),
    [
        (lambda: Reader(path="/api/v1/purchases/nonsense/events"), 404),
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
        await connect(make_server(), made)
        return made

    refused = asyncio.run(scene())
    assert refused.status == status
    assert json.loads(refused.text)["status"] == status


def test_a_full_process_refuses_another_stream_and_suggests_polling(
    known: dict[UUID, PurchaseStatus],
) -> None:
    refused = asked(Reader(), streams_max=0)
    assert (refused.status, json.loads(refused.text)["type"]) == (503, "/problems/too-many-streams")
    assert ("retry-after", "5") in refused.headers


def test_streams_per_request_and_per_address_are_limited_and_an_ended_stream_makes_room(
    known: dict[UUID, PurchaseStatus], settings: Any
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, trusted_proxies="10.0.0.7")
    requests = [UUID(int=number) for number in range(STREAMS_OF_ADDRESS_MAX + 1)]

    def reader(request: UUID, address: str) -> Reader:
        known[request] = PurchaseStatus(request, "ann", row("RESERVED"))
        place = signed_positions.sign_position(request, SIGNED_POSITION)
        return Reader(
            f"/api/v1/purchases/{request}/events", f"place={place}", client="10.0.0.7:5000", x_forwarded_for=address
        )

    async def opened(server: Gateway, one: Reader) -> int:
        stream = connect(server, one)
        async with asyncio.timeout(TIMEOUT_S):
            while not one.status:
                one.news.clear()
                await one.news.wait()
        if one.status != 200:
            await stream
        return one.status

    async def scene() -> None:
        server = make_server()
        same = [reader(requests[0], f"1.2.3.{number}") for number in range(STREAMS_OF_REQUEST_MAX + 1)]
        assert [await opened(server, one) for one in same] == [200] * STREAMS_OF_REQUEST_MAX + [503]
        many = [reader(request, "9.9.9.9") for request in requests[1:]]
        assert {await opened(server, one) for one in many} == {200}
        other = requests[1]
        assert await opened(server, reader(other, "9.9.9.9")) == 503
        assert await opened(server, reader(other, "9.9.9.8")) == 200
        many[5].gone.set()
        async with asyncio.timeout(TIMEOUT_S):
            while not server._streams.has_room(other, "9.9.9.9"):
                await asyncio.sleep(0)
        assert await opened(server, reader(other, "9.9.9.9")) == 200
        server._streams.close()

    asyncio.run(scene())


def test_every_new_outcome_is_streamed_and_the_final_one_ends_the_stream(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = make_server(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        server._streams.dispatch(news(row("AWAITING_PAYMENT")))
        await reader.until('"AWAITING_PAYMENT"')
        server._streams.dispatch(news(row("EXPIRED")))
        await reader.until('"EXPIRED"')
        assert not stream.done(), "the buyer still has to learn that buying again is possible"
        server._streams.dispatch("another|1|an outcome of another request\n" + news(row("EXPIRED", again=True)))
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        assert [line for line in reader.text.splitlines() if line.startswith("id:")] == [
            f"id: {row(state).version + again}"
            for state, again in (("RESERVED", 0), ("AWAITING_PAYMENT", 0), ("EXPIRED", 0), ("EXPIRED", 1))
        ]

    asyncio.run(scene())


def test_a_reconnecting_client_receives_only_newer_outcomes(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = make_server(), Reader(last_event_id=str(row("AWAITING_PAYMENT").version))
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("AWAITING_PAYMENT"))
        stream = connect(server, reader)
        await reader.until("retry:")
        server._streams.dispatch(news(row("RESERVED")))  # older than what the client has
        server._streams.dispatch(news(row("PAID")))
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
        server, reader = make_server(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("PAID"))  # without a message
        server._streams.wake_all()
        await reader.until('"PAID"')
        reader.gone.set()
        await stream

    asyncio.run(scene())


def test_a_disconnected_client_frees_its_place(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = make_server(streams_max=1), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        assert server._streams.is_full
        reader.gone.set()
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        assert not server._streams.is_full

    asyncio.run(scene())


def test_a_stopping_process_ends_its_streams(known: dict[UUID, PurchaseStatus]) -> None:
    async def scene() -> None:
        server, reader = make_server(), Reader()
        known[REQUEST] = PurchaseStatus(REQUEST, "ann", row("RESERVED"))
        stream = connect(server, reader)
        await reader.until('"RESERVED"')
        server._streams.close()
        async with asyncio.timeout(TIMEOUT_S):
            await stream
        late = Reader()
        await connect(server, late)
        assert late.status == 503, "a stopping process accepts no more"

    asyncio.run(scene())


def test_with_many_streams_each_gets_its_position_less_often(known: dict[UUID, PurchaseStatus]) -> None:
    """The wait between two positions, as the stream asks the hub for it."""
    waits: list[float] = []

    class Observed(Subscriber):
        async def next_outcome(self, timeout_s: float) -> PurchaseOutcome | None:
            waits.append(timeout_s)
            self.end()
            return None

    async def scene(streams: int) -> None:
        hub = StreamHub(10**6)
        hub.stream_count = streams
        status = PurchaseStatus(REQUEST, "ann", None, None, DEADLINE_MS)
        known[REQUEST] = status
        request = event_stream.StreamRequest(REQUEST, SIGNED_POSITION, "ann", -1, "")
        await event_stream._send_events(hub, Observed(REQUEST), status, request, Reader())

    asyncio.run(scene(10))
    asyncio.run(scene(8000))
    assert waits == [event_stream.POSITION_INTERVAL_S, 4.0]
