"""The crowd tells what happened to it, whatever happened; and a buyer behaves like one."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from loadtest.rush.buyer import Buyer, Temper
from loadtest.rush.http import Answer, Client
from loadtest.rush.log import ClientLog

Gateway = Callable[[str, str, dict[str, str]], tuple[int, dict[str, Any]] | None]
REQUEST = "00000000-0000-8000-8000-000000000001"


async def served(gateway: Gateway, use: Callable[[Client], Awaitable[None]], head: str = "") -> int:
    """Use a client of a gateway that answers as told, or hangs up (None); how many connections there were."""
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
                answer = gateway(method, path, headers)
                if answer is None:
                    return
                body = json.dumps(answer[1]).encode()
                writer.write(f"HTTP/1.1 {answer[0]} X\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
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


def test_a_connection_is_used_again() -> None:
    answers: list[Answer] = []

    async def use(client: Client) -> None:
        for _ in range(3):
            answers.append(await client.call("GET", "/sales"))

    assert asyncio.run(served(lambda method, path, headers: (200, {"path": path}), use)) == 1
    assert [(answer.status, answer.body) for answer in answers] == [(200, {"path": "/api/v1/sales"})] * 3


def test_how_long_to_wait_is_read_from_the_answer() -> None:
    answers: list[Answer] = []

    async def use(client: Client) -> None:
        answers.append(await client.call("GET", "/sales"))

    asyncio.run(served(lambda method, path, headers: (429, {}), use, head="Retry-After: 3\r\n"))
    assert answers[0].retry_after_s == 3.0


def test_no_answer_is_an_answer_with_a_fault_and_the_next_call_gets_a_new_connection() -> None:
    answers: list[Answer] = []
    hangs_up = iter([True, False])

    async def use(client: Client) -> None:
        for _ in range(2):
            answers.append(await client.call("GET", "/sales"))

    connections = asyncio.run(served(lambda method, path, headers: None if next(hangs_up) else (200, {}), use))
    assert [answer.status for answer in answers] == [0, 200]
    assert answers[0].fault
    assert connections == 2


def test_nobody_there_is_no_crash() -> None:
    client = Client("http://127.0.0.1:1", 1)
    assert asyncio.run(client.call("GET", "/sales")).status == 0


# ── a buyer ──────────────────────────────────────────────────────────────────────────────────────


def bought(tmp_path: Path, gateway: Gateway, temper: Temper) -> tuple[str, list[dict[str, Any]]]:
    """What it came to, and the lines of the log."""
    log = ClientLog(tmp_path / "rush.jsonl", sale=1)
    ends: list[str] = []

    async def use(client: Client) -> None:
        until = time.monotonic() + 10
        ends.append(await Buyer("anna", 1, client, log, random.Random(1), temper, until).run())

    asyncio.run(served(gateway, use, head="Retry-After: 0\r\n"))
    log.close()
    return ends[0], [json.loads(line) for line in (tmp_path / "rush.jsonl").read_text().splitlines()]


class Shop:
    """A gateway that says SOLD_OUT at once; the first `refusals` attempts get no answer or a 503."""

    def __init__(self, *refusals: int) -> None:
        self.refusals = list(refusals)
        self.keys: list[str] = []

    def __call__(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]] | None:
        if path.endswith("/sessions"):
            return 201, {"token": "t"}
        if method == "POST" and path.endswith("/purchases"):
            assert headers["authorization"] == "Bearer t"
            self.keys.append(headers["idempotency-key"])
            if self.refusals:
                refusal = self.refusals.pop(0)
                return (refusal, {"type": "queue-unknown"}) if refusal else None
            return 202, {"request_id": REQUEST, "partition": 1, "offset": 2}
        return 200, {"state": "SOLD_OUT"}


PLAIN = Temper(double_click=0, greedy=0)


def test_a_buyer_tries_again_under_the_same_key_and_every_attempt_is_in_the_log(tmp_path: Path) -> None:
    shop = Shop(0, 503)
    end, lines = bought(tmp_path, shop, PLAIN)
    assert end == "SOLD_OUT"
    assert shop.keys == ["first"] * 3
    attempts = [line for line in lines if line["what"] == "purchase"]
    assert [line["status"] for line in attempts] == [0, 503, 202]
    assert attempts[-1] | {"request_id": REQUEST, "partition": 1, "offset": 2} == attempts[-1]
    assert [line["state"] for line in lines if line["what"] == "poll"] == ["SOLD_OUT"]
    assert lines[-1]["what"] == "end"
    assert lines[-1]["count"] == len(lines) - 1


def test_an_impatient_buyer_clicks_twice_under_one_key(tmp_path: Path) -> None:
    shop = Shop()
    end, _ = bought(tmp_path, shop, Temper(double_click=1, greedy=0))
    assert end == "SOLD_OUT"
    assert shop.keys == ["first", "first"]


def test_a_greedy_buyer_has_a_second_key(tmp_path: Path) -> None:
    shop = Shop()
    bought(tmp_path, shop, Temper(double_click=0, greedy=1))
    assert sorted(shop.keys) == ["first", "second"]


def test_a_refusal_for_good_ends_it(tmp_path: Path) -> None:
    shop = Shop(410)
    end, _ = bought(tmp_path, shop, PLAIN)
    assert end.startswith("never accepted (410")
    assert len(shop.keys) == 1
