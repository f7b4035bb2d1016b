"""One buyer: signs in, asks once it is open, tries again under the same key, looks, pays or changes his mind."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Any

from loadtest.rush.http import Answer, Client
from loadtest.rush.log import ClientLog, now_ms

REFUSED = frozenset({"SOLD_OUT", "DUPLICATE", "LIMIT_REACHED", "CLOSED", "TOO_LATE", "INVALID"})
ENDED = REFUSED | {"PAID", "EXPIRED", "CANCELLED", "REFUNDED"}
AGAIN = frozenset({0, 403, 429, 502, 503})
LOOK_S = 0.5
LONGEST_LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Temper:
    """Shares of the buyers: who clicks twice, who tries a second key, who pays, who cancels (the rest walk away)."""

    double_click: float = 0.2
    greedy: float = 0.1
    pay: float = 0.8
    cancel: float = 0.1


class Buyer:
    def __init__(
        self, name: str, sale: int, client: Client, log: ClientLog, chance: random.Random, temper: Temper, until: float
    ) -> None:
        self._name, self._sale, self._client, self._log = name, sale, client, log
        self._chance, self._temper, self._until = chance, temper, until
        self._headers = {"X-Forwarded-For": f"10.{chance.randrange(256)}.{chance.randrange(256)}.1"}

    async def run(self) -> str:
        """What it came to, in the buyer's eyes."""
        if not await self._sign_in():
            return "not signed in"
        answers = await self._click()
        requests = dict.fromkeys(answer.body["request_id"] for answer in answers if answer.status == 202)
        if not requests:
            return f"never accepted ({answers[0].status} {answers[0].body.get('type', answers[0].fault)})"
        states = [await self._follow(request) for request in requests]
        return " ".join(states)

    async def _click(self) -> list[Answer]:
        """One key, at times twice at once; the greedy have a second one, half of them after the first's answer."""
        clicks = 2 if self._chance.random() < self._temper.double_click else 1
        first = [self._ask("first") for _ in range(clicks)]
        if self._chance.random() >= self._temper.greedy:
            return await asyncio.gather(*first)
        if self._chance.random() < 0.5:
            return await asyncio.gather(*first, self._ask("second"))
        return [*await asyncio.gather(*first), await self._ask("second")]

    async def _sign_in(self) -> bool:
        while time.monotonic() < self._until:
            answer = await self._client.call("POST", "/sessions", {"user": self._name}, self._headers)
            if answer.status == 201:
                self._headers["Authorization"] = f"Bearer {answer.body['token']}"
                return True
            await self._pause(answer)
        return False

    async def _ask(self, key: str) -> Answer:
        """Until it is accepted or refused for good; each attempt is a line of the log, whatever came of it."""
        ticket = ""
        while True:
            ticket = ticket or await self._fetch_ticket()
            began = now_ms()
            answer = await self._client.call(
                "POST",
                f"/sales/{self._sale}/purchases",
                {"quantity": 1},
                {**self._headers, "Idempotency-Key": key, "Purchase-Ticket": ticket},
            )
            if answer.status == 403:
                ticket = ""  # too early, or its time was over
            told = {name: answer.body[name] for name in ("request_id", "partition", "offset") if name in answer.body}
            problem = answer.fault or answer.body.get("type", "")
            self._log.write(
                "purchase", began, took_ms=now_ms() - began, user=self._name, key=key, sale=self._sale, quantity=1,
                status=answer.status, **told, **({"problem": problem} if problem else {}),
            )  # fmt: skip
            if answer.status not in AGAIN or time.monotonic() > self._until:
                return answer
            await self._pause(answer)

    async def _fetch_ticket(self) -> str:
        """Empty before the opening: then the purchase says why."""
        answer = await self._client.call("POST", f"/sales/{self._sale}/ticket", {}, self._headers)
        return str(answer.body.get("ticket", ""))

    async def _follow(self, request: str) -> str:
        """Look until it has ended, or nothing more is wanted of it."""
        state, acted, pause_s = "QUEUED", False, LOOK_S
        while time.monotonic() < self._until:
            seen = await self._look(request)
            state = str(seen.get("state", state))
            if state in ENDED:
                return state
            if state == "AWAITING_PAYMENT" and not acted:
                acted = await self._act(seen["order_id"])
                if not acted:
                    return state
                pause_s = LOOK_S
            await asyncio.sleep(pause_s * (0.5 + self._chance.random()))
            pause_s = min(pause_s * 1.5, LONGEST_LOOK_S)
        return f"{state} when time was over"

    async def _look(self, request: str) -> dict[str, Any]:
        began = now_ms()
        answer = await self._client.call("GET", f"/purchases/{request}", None, self._headers)
        told = {name: answer.body[name] for name in ("state", "order_id", "may_buy_again") if name in answer.body}
        self._log.write(
            "poll", began, took_ms=now_ms() - began, user=self._name, request_id=request, status=answer.status, **told
        )
        return answer.body if answer.status == 200 else {}

    async def _act(self, order: str) -> bool:
        """Pay or cancel; False: he walks away."""
        wish = self._chance.random()
        if wish >= self._temper.pay + self._temper.cancel:
            return False
        what = "pay" if wish < self._temper.pay else "cancel"
        while time.monotonic() < self._until:
            began = now_ms()
            answer = await self._client.call("POST", f"/orders/{order}/{what}", {}, self._headers)
            self._log.write(
                what, began, took_ms=now_ms() - began, user=self._name, order_id=order, status=answer.status
            )
            if answer.status not in AGAIN:
                break
            await self._pause(answer)
        return True

    async def _pause(self, answer: Answer) -> None:
        seconds = answer.retry_after_s if answer.retry_after_s is not None else 0.5
        await asyncio.sleep(min(seconds, 10.0) * (0.5 + self._chance.random()))
