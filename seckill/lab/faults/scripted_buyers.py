"""Shell: single buyers who follow a script while things break.

They log every response in the crowd's own format, because the report can only check what is in a log.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loadtest.buyers import PURCHASE_PICKS, fingerprint
from loadtest.client_log import ClientLog, declare, now_ms

RESPONSE_SECONDS_MAX = 15.0
PATIENCE_S = 60.0
RETRY_S = 0.3
BACKGROUND_BUYER_S = 0.5
RETRIED_STATUSES = frozenset({0, 403, 429, 502, 503})
Item = TypeVar("Item")


class ApiResponse(NamedTuple):
    """`status` 0: no response arrived."""

    status: int
    body: dict[str, Any]

    @property
    def request(self) -> str:
        return str(self.body.get("request_id", ""))


class BuyerLog:
    """The log of scripted buyers; several threads may write to it."""

    def __init__(self, path: Path, sale: int) -> None:
        self.sale = sale
        declare(path, sale, 0)
        self._log = ClientLog(path, sale=sale)
        self._lock = threading.Lock()

    def write(self, what: str, began_ms: int, **fields: Any) -> None:
        with self._lock:
            self._log.write(what, began_ms, took_ms=now_ms() - began_ms, **fields)

    def close(self) -> None:
        self._log.close()


class Buyer:
    """One buyer at one gateway; `via` sends a single purchase through another gateway."""

    def __init__(
        self, url: str, name: str, log: BuyerLog, *, address: str = "", patience_s: float = PATIENCE_S
    ) -> None:
        """Signs in; `KeyError` if no gateway lets the buyer in within `patience_s`."""
        self.name, self.sale = name, log.sale
        self._url, self._log = url, log
        self._tickets: dict[str, str] = {}  # by key, because each ticket serves one request
        self._headers = {"X-Forwarded-For": address or _address_of(name)}
        response = _retry_until(
            lambda: call_api(url, "POST", "/sessions", {"user": name}, self._headers),
            lambda response: response.status == 201,
            patience_s,
        )
        self._headers["Authorization"] = f"Bearer {response.body['token']}"

    def attempt(self, key: str = "first", quantity: int = 1, via: str | None = None, ticket: str = "") -> ApiResponse:
        """One attempt to buy, with the buyer's own ticket or with the given one."""
        sent = self._tickets[key] = ticket or self._tickets.get(key) or self.fetch_ticket()
        began = now_ms()
        response = call_api(
            via or self._url, "POST", f"/sales/{self.sale}/purchases", {"quantity": quantity},
            {**self._headers, "Idempotency-Key": key, "Purchase-Ticket": sent},
        )  # fmt: skip
        if response.status == 403:
            del self._tickets[key]  # the ticket was too early or has expired
        known = {name: response.body[name] for name in PURCHASE_PICKS if name in response.body}
        self._log.write(
            "purchase", began, user=self.name, key=key, sale=self.sale, quantity=quantity, status=response.status,
            address=self._headers["X-Forwarded-For"], ticket=fingerprint(sent), **known, **_problem_of(response),
        )  # fmt: skip
        return response

    def fetch_ticket(self) -> str:
        began = now_ms()
        response = call_api(self._url, "POST", f"/sales/{self.sale}/ticket", {}, self._headers)
        ticket = str(response.body.get("ticket", ""))
        fields = {"ticket": fingerprint(ticket), "expires_at_ms": response.body["expires_at_ms"]} if ticket else {}
        self._log.write(
            "ticket", began, user=self.name, sale=self.sale, status=response.status, **fields, **_problem_of(response)
        )
        return ticket

    def buy(self, key: str = "first", quantity: int = 1, via: str | None = None) -> ApiResponse:
        """Repeat the attempt until it is accepted or finally refused."""
        return _retry_until(
            lambda: self.attempt(key, quantity, via), lambda response: response.status not in RETRIED_STATUSES
        )

    def buy_persistently(self) -> ApiResponse:
        """Repeat the attempt, whatever the response, until it is accepted or the buyer's patience ends."""
        return _retry_until(self.attempt, lambda response: response.status == 202)

    def poll(self, request: str) -> dict[str, Any]:
        """The state of a purchase; empty if the API does not know it or does not respond."""
        began = now_ms()
        response = call_api(self._url, "GET", f"/purchases/{request}", None, self._headers)
        seen = {name: response.body[name] for name in ("state", "order_id", "may_buy_again") if name in response.body}
        self._log.write("poll", began, user=self.name, request_id=request, status=response.status, **seen)
        return response.body if response.status == 200 else {}

    def wait_for(self, request: str, *states: str) -> dict[str, Any]:
        return _retry_until(lambda: self.poll(request), lambda purchase: purchase.get("state") in states)

    def act(self, order: str, verb: str) -> ApiResponse:
        """Pay or cancel an order."""
        began = now_ms()
        response = call_api(self._url, "POST", f"/orders/{order}/{verb}", {}, self._headers)
        self._log.write(verb, began, user=self.name, order_id=order, status=response.status, **_problem_of(response))
        return response


class BackgroundBuyers:
    """A new buyer every half second during the fault, so that requests keep coming; each makes one attempt."""

    def __init__(self, url: str, log: BuyerLog, name: str) -> None:
        self._url, self._log, self._name = url, log, name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * RESPONSE_SECONDS_MAX + PATIENCE_S)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(BACKGROUND_BUYER_S):
            number += 1
            try:
                Buyer(self._url, f"{self._name}-{number}", self._log, patience_s=1.0).attempt()
            except KeyError:
                continue  # the sign-in does not work during this fault


def call_api(url: str, method: str, path: str, body: object, headers: dict[str, str]) -> ApiResponse:
    request = urllib.request.Request(
        f"{url}/api/v1{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=RESPONSE_SECONDS_MAX) as response:
            return ApiResponse(response.status, json.load(response))
    except urllib.error.HTTPError as error:
        return ApiResponse(error.code, _json_object(error.read()))
    except (OSError, ValueError) as fault:
        return ApiResponse(0, {"type": f"{type(fault).__name__}: {fault}"})


def at_once(actions: Sequence[Callable[[], Item]]) -> list[Item]:
    """Run all actions at the same instant, as nearly as threads allow."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], Item]) -> Item:
        barrier.wait(30)
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(run, actions))


def _problem_of(response: ApiResponse) -> dict[str, str]:
    """The type of the problem, as the crowd's log has it."""
    return {"problem": str(response.body["type"])} if response.body.get("type") else {}


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _retry_until(
    action: Callable[[], Item], is_enough: Callable[[Item], object], patience_s: float = PATIENCE_S
) -> Item:
    """Repeat the action until its result is enough or the patience ends; the last result."""
    deadline = time.monotonic() + patience_s
    while True:
        result = action()
        if is_enough(result) or time.monotonic() > deadline:
            return result
        time.sleep(RETRY_S)


def _address_of(name: str) -> str:
    """A different IP address per buyer, because most cases are not about the limit per address."""
    low, middle, high = hashlib.sha256(name.encode()).digest()[:3]
    return f"10.{high}.{middle}.{low}"
