"""Machine: buyers, people and bots, as generators: each says what is to be done next and is told what came of it.

No socket, no clock, no chance of its own: loadtest/rush drives them on an asyncio loop, loadtest/locustfile.py on
Locust's. What a buyer does is written once, so that both crowds and the tests mean the same by "impatient".
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from loadtest.characters import Character

API = "/api/v1"
REFUSED = frozenset({"SOLD_OUT", "DUPLICATE", "LIMIT_REACHED", "CLOSED", "TOO_LATE", "INVALID"})
ENDED = REFUSED | {"PAID", "EXPIRED", "CANCELLED", "REFUNDED", "NOT_PLACED"}
AGAIN = frozenset({0, 403, 429, 502, 503})
REFRESH_S = 1.0
LOOK_S = 0.5
LONGEST_LOOK_S = 5.0
LONGEST_WAIT_S = 10.0
HASTE_S = 0.1
PURCHASE_PICKS = ("request_id", "topic", "partition", "offset", "stock_version")


class Answer(NamedTuple):
    """`status` 0: no answer came, so nobody knows what happened; `fault` says why."""

    status: int
    body: Mapping[str, Any]
    retry_after_s: float | None = None
    fault: str = ""
    poll_after_s: float | None = None


class Call(NamedTuple):
    """One HTTP request. `what`, `said` and those fields of the answer that `picks` names are its line in the log."""

    what: str
    method: str
    path: str
    name: str  # of the path, without its ids
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None
    said: Mapping[str, Any]
    picks: tuple[str, ...] = ()


class Pause(NamedTuple):
    seconds: float


class Together(NamedTuple):
    """Several things at once; the answer is what each came to, in this order."""

    all: tuple[Generator[Any, Any, Any], ...]


T = TypeVar("T")
Step = Call | Pause | Together
Steps = Generator[Step, Any, T]


class Person(NamedTuple):
    """Who it is and where he comes from. `is_over`: has he no time any more?"""

    name: str
    address: str
    character: Character
    chance: random.Random
    is_over: Callable[[], bool]


def life(person: Person, sale: int) -> Steps[str]:
    """What it came to, in the eyes of whoever it is."""
    character = person.character
    if character.accounts > 1:
        one = replace(character, accounts=1)
        names = [f"{person.name}.{number}" for number in range(character.accounts)]
        ends = yield Together(tuple(Buyer(person._replace(name=name, character=one), sale).run() for name in names))
        return f"farm: {sum(end in ('PAID', 'AWAITING_PAYMENT') for end in ends)} of {len(ends)} served"
    return (yield from Buyer(person, sale).run())


class Buyer:
    """One account: signs in, refreshes the page until the gong, asks, tries again under the same key, looks, pays."""

    def __init__(self, person: Person, sale: int) -> None:
        self._name, self._character, self._chance, self._is_over = (
            person.name, person.character, person.chance, person.is_over,
        )  # fmt: skip
        self._sale = sale
        self._headers = {"X-Forwarded-For": person.address}

    def run(self) -> Steps[str]:
        if not (yield from self._sign_in()):
            return "not signed in"
        yield from self._wait_for_the_gong()
        answers = yield from self._click()
        accepted = {str(answer.body["request_id"]): _path(answer.body) for answer in answers if answer.status == 202}
        if not accepted:
            return f"never accepted ({answers[0].status} {problem(answers[0])})"
        states = []
        for request, path in accepted.items():
            states.append((yield from self._follow(request, path)))
        return states[0] if len(states) == 1 else _told(states)

    def _sign_in(self) -> Steps[bool]:
        while not self._is_over():
            answer = yield from self._call("session", "POST", "/sessions", "/sessions", {"user": self._name}, {})
            if answer.status == 201:
                self._headers["Authorization"] = f"Bearer {answer.body['token']}"
                return True
            yield self._pause(answer)
        return False

    def _wait_for_the_gong(self) -> Steps[None]:
        """Refresh the page until the server's clock says that it is open."""
        path = f"/sales/{self._sale}"
        while not self._is_over():
            page = yield from self._call("sale", "GET", path, "/sales/[id]", None, {"sale": self._sale})
            if page.status in AGAIN:
                yield self._pause(page)
                continue
            left_s = (page.body.get("opens_at_ms", 0) - page.body.get("now_ms", 0)) / 1000
            if left_s <= 0:
                return
            yield Pause(min(left_s, REFRESH_S * self._around()))

    def _click(self) -> Steps[list[Answer]]:
        character = self._character
        answers: list[Answer] = []
        for first in range(0, character.keys, character.at_once):
            keys = range(first, min(first + character.at_once, character.keys))
            for answered in (yield Together(tuple(self._try(f"key-{key + 1}") for key in keys))):
                answers += answered
        return answers

    def _try(self, key: str) -> Steps[list[Answer]]:
        """A ticket, and as many clicks as he thinks it takes."""
        ticket = yield from self._ticket()
        answers = yield Together(tuple(self._ask(key, ticket) for _ in range(self._character.clicks)))
        return list(answers)

    def _ticket(self) -> Steps[str]:
        """The way in; none before the opening: then the purchase says why."""
        path, name = f"/sales/{self._sale}/ticket", "/sales/[id]/ticket"
        answer = yield from self._call("ticket", "POST", path, name, {}, {"sale": self._sale}, ("expires_at_ms",))
        return str(answer.body.get("ticket", ""))

    def _ask(self, key: str, ticket: str) -> Steps[Answer]:
        """Until it is accepted or refused for good."""
        path, name = f"/sales/{self._sale}/purchases", "/sales/[id]/purchases"
        said = {"key": key, "sale": self._sale, "quantity": 1, "address": self._headers["X-Forwarded-For"]}
        tries = 0
        while True:
            sent = {**said, "ticket": fingerprint(ticket)}
            answer = yield from self._call(
                "purchase", "POST", path, name, {"quantity": 1}, sent, PURCHASE_PICKS,
                {"Idempotency-Key": key, "Purchase-Ticket": ticket},
            )  # fmt: skip
            tries += 1
            if answer.status not in AGAIN or tries == self._character.tries or self._is_over():
                return answer
            yield self._pause(answer)
            if answer.status == 403 or not ticket:  # too early, or its time was over
                ticket = yield from self._ticket()

    def _follow(self, request: str, path: str) -> Steps[str]:
        """Look until it has ended, or nothing more is wanted of it."""
        state, acted, pause_s = "QUEUED", False, LOOK_S
        said = {"request_id": request}
        while not self._is_over():
            seen = yield from self._call(
                "poll", "GET", path, "/purchases/[id]", None, said, ("state", "order_id", "may_buy_again")
            )
            if seen.status == 200:
                state = str(seen.body["state"])
            if state in ENDED:
                return state
            if state == "AWAITING_PAYMENT" and not acted:
                acted = yield from self._act(seen.body["order_id"])
                if not acted:
                    return state
                pause_s = LOOK_S
            told_s = seen.poll_after_s if self._character.waits else None
            yield Pause(pause_s * self._around() if told_s is None else told_s)
            pause_s = min(pause_s * 1.5, LONGEST_LOOK_S)
        return f"{state} when time was over"

    def _act(self, order: str) -> Steps[bool]:
        """Pay or cancel; False: he walks away."""
        wish = self._chance.random()
        if wish >= self._character.pay + self._character.cancel:
            return False
        what = "pay" if wish < self._character.pay else "cancel"
        while not self._is_over():
            path, name = f"/orders/{order}/{what}", f"/orders/[id]/{what}"
            answer = yield from self._call(what, "POST", path, name, {}, {"order_id": order})
            if answer.status not in AGAIN:
                break
            yield self._pause(answer)
        return True

    def _call(
        self, what: str, method: str, path: str, name: str, body: Mapping[str, Any] | None, said: Mapping[str, Any],
        picks: tuple[str, ...] = (), headers: Mapping[str, str] | None = None,
    ) -> Steps[Answer]:  # fmt: skip
        answer = yield Call(
            what, method, path, name, {**self._headers, **(headers or {})}, body, {"user": self._name, **said}, picks
        )
        assert isinstance(answer, Answer)
        return answer

    def _pause(self, answer: Answer) -> Pause:
        if not self._character.waits:
            return Pause(HASTE_S * self._around())
        seconds = 0.5 if answer.retry_after_s is None else answer.retry_after_s
        return Pause(min(seconds, LONGEST_WAIT_S) * self._around())

    def _around(self) -> float:
        return 0.5 + self._chance.random()


def _path(accepted: Mapping[str, Any]) -> str:
    """Where to look: an address of the API, below its root."""
    return str(accepted.get("status_url") or f"/purchases/{accepted['request_id']}").removeprefix(API)


def problem(answer: Answer) -> str:
    return answer.fault or str(answer.body.get("type", ""))


def _told(states: list[str]) -> str:
    counts: dict[str, int] = {}
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return " ".join(state if count == 1 else f"{count} × {state}" for state, count in sorted(counts.items()))


def fingerprint(ticket: str) -> str:
    """Tells tickets apart in a log, and is of no use to a thief."""
    return hashlib.sha256(ticket.encode()).hexdigest()[:12] if ticket else ""


def lines(call: Call, answer: Answer) -> Iterator[tuple[str, Any]]:
    """What the log keeps of a call."""
    yield from call.said.items()
    yield "status", answer.status
    for name in call.picks:
        if name in answer.body:
            yield name, answer.body[name]
    if call.what == "ticket" and "ticket" in answer.body:
        yield "ticket", fingerprint(str(answer.body["ticket"]))
    if problem(answer):
        yield "problem", problem(answer)
