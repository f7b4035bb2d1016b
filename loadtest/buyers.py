"""Machine: buyers as generators: each yields its next step (a request, a pause) and receives the result.

A buyer has no socket, clock or random source of its own. loadtest/rush runs buyers on an asyncio loop, and
loadtest/locustfile.py runs them on gevent, so both crowds and the tests behave the same.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from loadtest.buyer_profiles import Character
from seckill.web.purchase_states import ENDED, PurchaseState

API = "/api/v1"
RETRIED_STATUSES = frozenset({0, 403, 429, 502, 503})
REFRESH_S = 1.0
POLL_SECONDS_MIN, POLL_SECONDS_MAX = 0.5, 5.0
RETRY_SECONDS_MAX = 10.0
IMPATIENT_RETRY_S = 0.1
PURCHASE_PICKS = ("request_id", "topic", "partition", "offset", "stock_version")


class Response(NamedTuple):
    """`status` 0 means that no response arrived, so the outcome is unknown; `fault` says why."""

    status: int
    body: Mapping[str, Any]
    retry_after_s: float | None = None
    fault: str = ""
    poll_after_s: float | None = None


class Call(NamedTuple):
    """One HTTP request. Its line in the log has `what`, `fields`, and the fields of the response named in `picks`."""

    what: str
    method: str
    path: str
    name: str  # the path without ids, to group requests
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None
    fields: Mapping[str, Any]
    picks: tuple[str, ...] = ()


class Pause(NamedTuple):
    seconds: float


class Together(NamedTuple):
    """Several generators at once; the result is the list of their results, in this order."""

    all: tuple[Generator[Any, Any, Any], ...]


T = TypeVar("T")
Step = Call | Pause | Together
Steps = Generator[Step, Any, T]


class Person(NamedTuple):
    """A buyer's name, IP address and behaviour. `is_over` returns True when the buyer's time is over."""

    name: str
    address: str
    character: Character
    chance: random.Random
    is_over: Callable[[], bool]


def run_person(person: Person, sale: int) -> Steps[str]:
    """Everything that a person or bot does in a sale; returns the outcome as the buyer sees it."""
    character = person.character
    if character.accounts > 1:
        one = replace(character, accounts=1)
        names = [f"{person.name}.{number}" for number in range(character.accounts)]
        ends = yield Together(tuple(Buyer(person._replace(name=name, character=one), sale).run() for name in names))
        served = sum(end in (PurchaseState.PAID, PurchaseState.AWAITING_PAYMENT) for end in ends)
        return f"farm: {served} of {len(ends)} served"
    return (yield from Buyer(person, sale).run())


class Buyer:
    """One account: sign in, refresh the page until the sale opens, buy, retry with the same key, poll, pay."""

    def __init__(self, person: Person, sale: int) -> None:
        self._name, self._character, self._chance, self._is_over = (
            person.name, person.character, person.chance, person.is_over,
        )  # fmt: skip
        self._sale = sale
        self._headers = {"X-Forwarded-For": person.address}

    def run(self) -> Steps[str]:
        if not (yield from self._sign_in()):
            return "not signed in"
        yield from self._wait_for_opening()
        responses = yield from self._buy_all_keys()
        accepted = {
            str(response.body["request_id"]): _path(response.body) for response in responses if response.status == 202
        }
        if not accepted:
            return f"never accepted ({responses[0].status} {problem(responses[0])})"
        states = []
        for request, path in accepted.items():
            states.append((yield from self._follow(request, path)))
        return states[0] if len(states) == 1 else _summary(states)

    def _sign_in(self) -> Steps[bool]:
        while not self._is_over():
            response = yield from self._call("session", "POST", "/sessions", "/sessions", {"user": self._name}, {})
            if response.status == 201:
                self._headers["Authorization"] = f"Bearer {response.body['token']}"
                return True
            yield self._pause(response)
        return False

    def _wait_for_opening(self) -> Steps[None]:
        """Refresh the page until the sale is open by the server's clock."""
        path = f"/sales/{self._sale}"
        while not self._is_over():
            page = yield from self._call("sale", "GET", path, "/sales/[id]", None, {"sale": self._sale})
            if page.status in RETRIED_STATUSES:
                yield self._pause(page)
                continue
            left_s = (page.body.get("opens_at_ms", 0) - page.body.get("now_ms", 0)) / 1000
            if left_s <= 0:
                return
            yield Pause(min(left_s, REFRESH_S * self._jitter()))

    def _buy_all_keys(self) -> Steps[list[Response]]:
        character = self._character
        responses: list[Response] = []
        for first in range(0, character.keys, character.at_once):
            keys = range(first, min(first + character.at_once, character.keys))
            for answered in (yield Together(tuple(self._buy(f"key-{key + 1}") for key in keys))):
                responses += answered
        return responses

    def _buy(self, key: str) -> Steps[list[Response]]:
        """Fetch a ticket and click as often as the character does."""
        ticket = yield from self._fetch_ticket()
        responses = yield Together(tuple(self._attempt(key, ticket) for _ in range(self._character.clicks)))
        return list(responses)

    def _fetch_ticket(self) -> Steps[str]:
        """A ticket for one purchase; empty before the opening, and the purchase is then refused with the reason."""
        path, name = f"/sales/{self._sale}/ticket", "/sales/[id]/ticket"
        response = yield from self._call("ticket", "POST", path, name, {}, {"sale": self._sale}, ("expires_at_ms",))
        return str(response.body.get("ticket", ""))

    def _attempt(self, key: str, ticket: str) -> Steps[Response]:
        """Send the purchase until it is accepted or finally refused."""
        path, name = f"/sales/{self._sale}/purchases", "/sales/[id]/purchases"
        fields = {"key": key, "sale": self._sale, "quantity": 1, "address": self._headers["X-Forwarded-For"]}
        tries = 0
        while True:
            sent = {**fields, "ticket": fingerprint(ticket)}
            response = yield from self._call(
                "purchase", "POST", path, name, {"quantity": 1}, sent, PURCHASE_PICKS,
                {"Idempotency-Key": key, "Purchase-Ticket": ticket},
            )  # fmt: skip
            tries += 1
            if response.status not in RETRIED_STATUSES or tries == self._character.tries or self._is_over():
                return response
            yield self._pause(response)
            if response.status == 403 or not ticket:  # the ticket was too early or has expired
                ticket = yield from self._fetch_ticket()

    def _follow(self, request: str, path: str) -> Steps[str]:
        """Poll until the purchase has ended or the buyer wants nothing more; pay or cancel once."""
        state, acted, pause_s = str(PurchaseState.QUEUED), False, POLL_SECONDS_MIN
        fields = {"request_id": request}
        while not self._is_over():
            seen = yield from self._call(
                "poll", "GET", path, "/purchases/[id]", None, fields, ("state", "order_id", "may_buy_again")
            )
            if seen.status == 200:
                state = str(seen.body["state"])
            if state in ENDED:
                return state
            if state == PurchaseState.AWAITING_PAYMENT and not acted:
                acted = yield from self._act(seen.body["order_id"])
                if not acted:
                    return state
                pause_s = POLL_SECONDS_MIN
            poll_after_s = seen.poll_after_s if self._character.waits else None
            yield Pause(pause_s * self._jitter() if poll_after_s is None else poll_after_s)
            pause_s = min(pause_s * 1.5, POLL_SECONDS_MAX)
        return f"{state} when time was over"

    def _act(self, order: str) -> Steps[bool]:
        """Pay or cancel; False if the buyer does neither."""
        wish = self._chance.random()
        if wish >= self._character.pay + self._character.cancel:
            return False
        what = "pay" if wish < self._character.pay else "cancel"
        while not self._is_over():
            path, name = f"/orders/{order}/{what}", f"/orders/[id]/{what}"
            response = yield from self._call(what, "POST", path, name, {}, {"order_id": order})
            if response.status not in RETRIED_STATUSES:
                break
            yield self._pause(response)
        return True

    def _call(
        self, what: str, method: str, path: str, name: str, body: Mapping[str, Any] | None, fields: Mapping[str, Any],
        picks: tuple[str, ...] = (), headers: Mapping[str, str] | None = None,
    ) -> Steps[Response]:  # fmt: skip
        response = yield Call(
            what, method, path, name, {**self._headers, **(headers or {})}, body, {"user": self._name, **fields}, picks
        )
        assert isinstance(response, Response)
        return response

    def _pause(self, response: Response) -> Pause:
        if not self._character.waits:
            return Pause(IMPATIENT_RETRY_S * self._jitter())
        seconds = 0.5 if response.retry_after_s is None else response.retry_after_s
        return Pause(min(seconds, RETRY_SECONDS_MAX) * self._jitter())

    def _jitter(self) -> float:
        """A random factor around 1, so that buyers do not act in step."""
        return 0.5 + self._chance.random()


def _path(accepted: Mapping[str, Any]) -> str:
    """The path of the purchase's status below the API's root."""
    return str(accepted.get("status_url") or f"/purchases/{accepted['request_id']}").removeprefix(API)


def problem(response: Response) -> str:
    return response.fault or str(response.body.get("type", ""))


def _summary(states: list[str]) -> str:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return " ".join(state if count == 1 else f"{count} × {state}" for state, count in sorted(counts.items()))


def fingerprint(ticket: str) -> str:
    """Distinguishes tickets in a log without revealing them."""
    return hashlib.sha256(ticket.encode()).hexdigest()[:12] if ticket else ""


def log_fields(call: Call, response: Response) -> Iterator[tuple[str, Any]]:
    """The fields of a call's line in the log."""
    yield from call.fields.items()
    yield "status", response.status
    for name in call.picks:
        if name in response.body:
            yield name, response.body[name]
    if call.what == "ticket" and "ticket" in response.body:
        yield "ticket", fingerprint(str(response.body["ticket"]))
    if problem(response):
        yield "problem", problem(response)
