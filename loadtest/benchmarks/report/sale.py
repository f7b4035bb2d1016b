"""Pure: a consistent sale of any size, as every store would contain it. It depends only on the number of requests.

One request in a hundred gets a unit. Four holders of five pay, the fifth cancels. Every second holder asks again and is
refused. Every thousandth request is in its topic twice. Buyers poll until they know their outcome. All ids are computed
from numbers, so each store can be written on its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from seckill.messaging.topics import INVENTORY_DECISIONS, ORDER_EVENTS, PARTITIONS, PURCHASE_REQUESTS

SALE: Final = 1
STOCK: Final = 1
SKU: Final = "phone"
PRICE: Final = 9900
ONE_UNIT_FOR: Final = 100
CANCELS: Final = 5
TWICE: Final = 1000
LIFE_MS: Final = 600_000
CHANNELS: Final = ("sms", "email", "push")


class Record(NamedTuple):
    topic: str
    partition: int
    key: bytes
    value: bytes
    at_ms: int


class SampleRequest(NamedTuple):
    """One request and its position in the topic."""

    number: int
    user: int
    partition: int
    offset: int
    again: int | None  # the offset of its duplicate
    decision: str


def name(kind: int, number: int) -> str:
    """The id of a request (1), a decision (2), an order (3), a payment (4) or an order event (5…9)."""
    return f"{number * 2654435761 % 2**32:08x}-{kind:04x}-8000-8000-{number:012x}"


REQUEST, DECISION, ORDER, PAYMENT, PLACED, ENDED, RELEASED, DECLARED = range(1, 9)


@dataclass(frozen=True, slots=True)
class SampleSale:
    requests: int
    began_ms: int

    @property
    def units(self) -> int:
        return max(1, self.requests // ONE_UNIT_FOR)

    def sample_requests(self) -> Iterator[SampleRequest]:
        """All requests, in the order of each partition."""
        ends = [0] * PARTITIONS
        units = self.units
        for number in range(self.requests):
            second = units <= number < 2 * units and number % 2 == 0
            user = number - units if second else number
            partition = user % PARTITIONS
            offset = ends[partition]
            again = offset + 1 if number % TWICE == TWICE - 1 else None
            ends[partition] += 1 if again is None else 2
            decision = "RESERVED" if number < units else "DUPLICATE" if second else "SOLD_OUT"
            yield SampleRequest(number, user, partition, offset, again, decision)

    def cancels(self, number: int) -> bool:
        return number % CANCELS == CANCELS - 1

    def at_ms(self, number: int) -> int:
        """Ten requests arrive per millisecond."""
        return self.began_ms + number // 10

    def stock_version(self, number: int) -> int:
        """The stock version of a decision: holders come one after the other, all others when the stock is empty."""
        return min(number, self.units - 1) + 2

    @property
    def cancelled(self) -> int:
        return self.units // CANCELS

    def holders(self) -> Iterator[str]:
        """Requests of holders who paid."""
        return (name(REQUEST, n) for n in range(self.units) if not self.cancels(n))

    # ── topics ───────────────────────────────────────────────────────────────────────────────────

    def records(self) -> Iterator[Record]:
        for sample in self.sample_requests():
            user, request = f"buyer-{sample.user}", name(REQUEST, sample.number)
            at_ms = self.at_ms(sample.number)
            head = f'"request_id":"{request}","user_id":"{user}","sale_id":{SALE},"sku":"{SKU}","quantity":1'
            body = f'{head},"admitted_at_ms":{at_ms},"deadline_ms":{at_ms + LIFE_MS}'
            message = _message(request, "PurchaseRequested", 1, body)
            requested = Record(PURCHASE_REQUESTS.name, sample.partition, user.encode(), message, at_ms + 1)
            yield requested
            if sample.again is not None:
                yield requested
            origin = f'"cause":"{request}","origin":["{PURCHASE_REQUESTS.name}",{sample.partition},{sample.offset}]'
            body = (
                f'{head},"unit_price":{PRICE},"decision":"{sample.decision}",'
                f'"stock_version":{self.stock_version(sample.number)},"decided_at_ms":{at_ms + 5}'
            )
            message = _message(name(DECISION, sample.number), "PurchaseDecided", 1, body, origin)
            yield Record(INVENTORY_DECISIONS.name, sample.partition, user.encode(), message, at_ms + 6)
            if sample.decision == "RESERVED":
                yield from self._records_of_order(sample, head, origin.partition(",")[2])

    def _records_of_order(self, sample: SampleRequest, head: str, origin: str) -> Iterator[Record]:
        user, at_ms = f"buyer-{sample.user}".encode(), self.at_ms(sample.number)
        head = f'{head},"order_id":"{name(ORDER, sample.number)}","amount":{PRICE},"returned_units":0'
        ended = "OrderCancelled" if self.cancels(sample.number) else "OrderPaid"
        for kind, event, after_ms in ((PLACED, "OrderPlaced", 10), (ENDED, ended, 2000)):
            body = f'{head},"at_ms":{at_ms + after_ms},"pay_before_ms":{at_ms + 10 + LIFE_MS}'
            message = _message(
                name(kind, sample.number), event, 2, body, f'"cause":"{name(DECISION, sample.number)}",{origin}'
            )
            yield Record(ORDER_EVENTS.name, sample.partition, user, message, at_ms + after_ms)
        if self.cancels(sample.number):
            request = name(REQUEST, sample.number)
            body = (
                f'"request_id":"{request}","user_id":"{user.decode()}","sale_id":{SALE},"sku":"{SKU}","quantity":1,'
                f'"reason":"cancelled","stock_version":{self.ended_version(sample.number)}'
            )
            cause = f'"cause":"{name(ENDED, sample.number)}",{origin}'
            message = _message(name(RELEASED, sample.number), "UnitsReleased", 1, body, cause)
            yield Record(INVENTORY_DECISIONS.name, sample.partition, user, message, at_ms + 2005)

    def state(self, sample: SampleRequest) -> str:
        """The final state of a request."""
        if sample.decision != "RESERVED":
            return sample.decision
        return "CANCELLED" if self.cancels(sample.number) else "PAID"

    def events(self, number: int) -> tuple[tuple[int, str], tuple[int, str]]:
        return (PLACED, "OrderPlaced"), (ENDED, "OrderCancelled" if self.cancels(number) else "OrderPaid")

    def ended_version(self, number: int) -> int:
        return 2 + self.units + number

    # ── the outside world ────────────────────────────────────────────────────────────────────────

    def provider(self) -> Iterator[str]:
        for n in range(self.units):
            if not self.cancels(n):
                for what, after_ms in (("opened", 1000), ("captured", 1500)):
                    line = {"at_ms": self.at_ms(n) + after_ms, "what": what, "payment": name(PAYMENT, n)}
                    yield json.dumps(line | {"order": name(ORDER, n), "amount": PRICE})

    def sinks(self) -> Iterator[str]:
        for n in range(self.units):
            for kind, event in self.events(n):
                for channel in CHANNELS:
                    line = {
                        "at_ms": self.at_ms(n) + 3000,
                        "what": "effect",
                        "channel": channel,
                        "text": text_of(event, n),
                    }
                    yield json.dumps(line | {"key": f"{name(kind, n)}:{channel}", "user": f"buyer-{n}"})

    def crowd(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """The responses to each buyer: accepted, in the queue, then the outcome."""
        for each in self.sample_requests():
            user, request, at_ms = f"buyer-{each.user}", name(REQUEST, each.number), self.at_ms(each.number)
            second = each.number != each.user
            began_ms = max(at_ms, self.at_ms(each.user) + 100) if second else at_ms
            yield "purchase", began_ms, {
                "took_ms": 4, "user": user, "key": "second" if second else "first", "sale": SALE, "quantity": 1,
                "status": 202, "request_id": request, "partition": each.partition, "offset": each.offset,
            }  # fmt: skip
            states = ["QUEUED", self.state(each)]
            if each.decision == "RESERVED":
                states.insert(1, "AWAITING_PAYMENT")
            for number, state in enumerate(states):
                yield "poll", began_ms + 1000 * (number + 1), {
                    "took_ms": 2, "user": user, "request_id": request, "status": 200, "state": state,
                }  # fmt: skip


def text_of(event: str, number: int) -> str:
    """The text of a message, with the beginning of the order's id."""
    return f"{event}: {name(ORDER, number)[:8]}"


def _message(event_id: str, kind: str, version: int, body: str, more: str = "") -> bytes:
    tail = f",{more}" if more else ""
    return f'{{"event_id":"{event_id}","type":"{kind}","version":{version},"body":{{{body}}}{tail}}}'.encode()
