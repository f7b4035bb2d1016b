"""Lab 7. Buyers click twice, and lose the response of a purchase. Broken: each call has a new request id. Fixed: the id
follows from buyer, sale and Idempotency-Key. The gateway is a real one, and so is the log behind it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from uuid import UUID, uuid4

from kafka import KafkaConsumer, TopicPartition

from seckill.config.kafka_clients import client_options
from seckill.lab.faults.scripted_buyers import ApiResponse, Buyer, BuyerLog, at_once
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Bar, Chart, Observation, Variant
from seckill.lab.labs.steps import purchases
from seckill.messaging.envelope import decode_envelope
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.stack import health_checks
from seckill.stack.child_processes import free_port, granian_command, running

BUYERS, UNITS = 12, 100
APPLICATIONS = {
    Variant.BROKEN: "seckill.lab.labs.steps.forgetful_gateway:application",
    Variant.FIXED: "gateway.app:application",
}


def new_request_id(secret: str, user_id: str, sale_id: int, key: str) -> UUID:
    """In place of `gateway.identity.derive_request_id`: a new id for each call, as most systems begin."""
    return uuid4()


def run(step: Step, variant: Variant) -> Observation:
    stock = purchases.create_stock(UNITS)
    before = _requests(step.bootstrap_servers)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = BuyerLog(step.folder / "buyers.jsonl", stock.sale_id)
    command = granian_command("rsgi", port, APPLICATIONS[variant])
    check = health_checks.http(f"{url}/readyz")
    with running("the gateway", command, step.folder / "gateway.log", check):
        step.tell(f"{BUYERS} buyers click twice at once")
        twice = [_click_twice(Buyer(url, f"double-{number}", log)) for number in range(BUYERS)]
        step.tell(f"{BUYERS} buyers lose the response, reload the page and send the same call again")
        twice += [_lose_response(Buyer(url, f"lost-{number}", log)) for number in range(BUYERS)]
    log.close()
    records = _requests(step.bootstrap_servers) - before
    extra = sum(count - 1 for count in records.values())
    unrecognised = sum(first.status != 202 or first.request != second.request for first, second in twice)
    bars = (
        Bar("calls repeated", len(twice)),
        Bar("got the same answer", len(twice) - unrecognised),
        Bar("got another answer", unrecognised, True),
        Bar("requests too many", extra, True),
    )
    return Observation(
        unrecognised,
        {"buyers, with one wish each": len(twice), "requests in the log": records.total(),
         "repeated calls that were refused": sum({a.status, b.status} != {202} for a, b in twice)},
        Chart(y="repeated calls", bars=bars),
    )  # fmt: skip


def _click_twice(buyer: Buyer) -> tuple[ApiResponse, ApiResponse]:
    ticket = buyer.fetch_ticket()
    first, second = at_once([partial(buyer.attempt, "click", ticket=ticket)] * 2)
    return first, second


def _lose_response(buyer: Buyer) -> tuple[ApiResponse, ApiResponse]:
    """The buyer never sees the first response. The page keeps the key, but has a new ticket after it was reloaded."""
    return buyer.buy("lost"), buyer.attempt("lost", ticket=buyer.fetch_ticket())


def _requests(bootstrap_servers: str) -> Counter[str]:
    """How many requests each user has in the log."""
    consumer = KafkaConsumer(**client_options(bootstrap_servers), enable_auto_commit=False)
    try:
        wanted = [TopicPartition(PURCHASE_REQUESTS.name, each) for each in range(PURCHASE_REQUESTS.partitions)]
        ends = consumer.end_offsets(wanted)
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        users: Counter[str] = Counter()
        while any(consumer.position(each) < ends[each] for each in wanted):
            for records in consumer.poll(500).values():
                users.update(str(decode_envelope(record.value).body["user_id"]) for record in records)
        return users
    finally:
        consumer.close()
