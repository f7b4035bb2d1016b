"""The plain crowd logs every response and fault, and its buyers arrive as planned."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.buyer_profiles import Mixture
from loadtest.buyers import Response
from loadtest.client_log import ClientLog
from loadtest.rush.crowd import Plan, run_crowd
from loadtest.rush.http import Client

Gateway = Callable[[str, str, dict[str, str]], tuple[int, dict[str, Any]] | None]
REQUEST = "00000000-0000-8000-8000-000000000001"


async def serve_client(gateway: Gateway, use: Callable[[Client], Awaitable[None]], head: str = "") -> int:
    """Use a client of a server that responds as `gateway` says, or closes the connection (None); the number of its
    connections."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = lines[0].split()
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
                }
                await reader.readexactly(int(headers.get("content-length", 0)))
                response = gateway(method, path, headers)
                if response is None:
                    return
                body = json.dumps(response[1]).encode()
                writer.write(f"HTTP/1.1 {response[0]} X\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1", 4)
    try:
        await use(client)
    finally:
        client.close()
        server.close()
    return connections


class Shop:
    """A gateway that is sold out; the first attempts get these statuses, or no response for 0."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.keys: list[str] = []

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]] | None:
        if path.endswith("/sessions"):
            return 201, {"token": "t"}
        if path.endswith("/ticket"):
            return 201, {"ticket": "T"}
        if method == "POST" and path.endswith("/purchases"):
            assert headers["authorization"] == "Bearer t"
            self.keys.append(headers["idempotency-key"])
            if self.refusals:
                refusal = self.refusals.pop(0)
                return (refusal, {"type": "queue-unknown"}) if refusal else None
            return 202, {"request_id": REQUEST, "partition": 1, "offset": 2}
        return 200, {"state": "SOLD_OUT"}


def test_a_connection_is_reused() -> None:
    responses: list[Response] = []

    async def use(client: Client) -> None:
        for _ in range(3):
            responses.append(await client.call("GET", "/sales"))

    assert asyncio.run(serve_client(lambda method, path, headers: (200, {"path": path}), use)) == 1
    assert [(response.status, response.body) for response in responses] == [(200, {"path": "/api/v1/sales"})] * 3


def test_the_wait_before_a_retry_is_read_from_the_response() -> None:
    responses: list[Response] = []

    async def use(client: Client) -> None:
        responses.append(await client.call("GET", "/sales"))

    asyncio.run(serve_client(lambda method, path, headers: (429, {}), use, head="Retry-After: 3\r\n"))
    assert responses[0].retry_after_s == 3.0


def test_a_missing_response_is_reported_as_a_fault_and_the_next_call_gets_a_new_connection() -> None:
    responses: list[Response] = []
    closes = iter([True, False])

    async def use(client: Client) -> None:
        for _ in range(2):
            responses.append(await client.call("GET", "/sales"))

    connections = asyncio.run(serve_client(lambda method, path, headers: None if next(closes) else (200, {}), use))
    assert [response.status for response in responses] == [0, 200]
    assert responses[0].fault
    assert connections == 2


def test_a_refused_connection_does_not_crash_the_crowd() -> None:
    client = Client("http://127.0.0.1:1", 1)
    assert asyncio.run(client.call("GET", "/sales")).status == 0


# ── a whole crowd ────────────────────────────────────────────────────────────────────────────────


def run(tmp_path: Path, shop: Shop, **plan: Any) -> tuple[Counter[str], list[dict[str, Any]]]:
    """How many buyers had which outcome, and the lines of the log."""
    log = ClientLog(tmp_path / "rush.jsonl", sale=1)
    outcomes: list[Counter[str]] = []

    async def use(client: Client) -> None:
        url = f"http://127.0.0.1:{client._port}"
        outcomes.append((await run_crowd(Plan(url, 1, mixture=PLAIN, **plan), log))[0])

    asyncio.run(serve_client(shop, use, head="Retry-After: 0\r\n"))
    log.close()
    return outcomes[0], [json.loads(line) for line in (tmp_path / "rush.jsonl").read_text().splitlines()]


PLAIN = Mixture(double_click=0, greedy=0)


def test_every_attempt_is_logged_even_without_a_response(tmp_path: Path) -> None:
    outcomes, lines = run(tmp_path, Shop(0, 503), buyers=1)
    assert outcomes == {"SOLD_OUT": 1}
    assert [(line["what"], line["status"]) for line in lines if "status" in line] == [
        ("session", 201), ("sale", 200), ("ticket", 201), ("purchase", 0), ("purchase", 503), ("purchase", 202),
        ("poll", 200),
    ]  # fmt: skip
    attempt = next(line for line in lines if line.get("status") == 202)
    assert attempt | {"key": "key-1", "quantity": 1, "request_id": REQUEST, "partition": 1, "offset": 2} == attempt
    assert lines[-1]["what"] == "end"
    assert lines[-1]["count"] == len(lines) - 1


def test_an_open_loop_starts_all_buyers_although_none_has_finished(tmp_path: Path) -> None:
    """Twenty buyers arrive while the first one still retries."""
    outcomes, lines = run(tmp_path, Shop(*[503] * 20), buyers=20, rate=100_000.0)
    assert outcomes == {"SOLD_OUT": 20}
    firsts = [number for number, line in enumerate(lines) if line["what"] == "session"]
    seconds = [number for number, line in enumerate(lines) if line.get("status") == 202]
    assert max(firsts) < min(seconds)


def test_the_same_seed_makes_the_same_crowd() -> None:
    plan = Plan("http://x", 1, 30, Mixture(), rate=5.0, farms=1, floods=1)
    came = [[(at_s, person.name, person.address, person.character) for at_s, person in plan.people(0)] for _ in "ab"]
    assert came[0] == came[1]
    assert [character.name for *_, character in came[0][-2:]] == ["farm", "flood"]
    assert came[0] != [
        (at_s, person.name, person.address, person.character) for at_s, person in replace(plan, seed=2).people(0)
    ]
