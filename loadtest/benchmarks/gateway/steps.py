"""Shell: the CPU time of each step of an admission, called on its own many times in one thread.

The gateway uses more than their sum, because it also serves HTTP and wakes its loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from gateway import accepted_response, admission, identity, signed_positions, tickets
from gateway.admission import AdmissionRequest
from gateway.batch_producer import BatchProducer
from gateway.batching import MicroBatcher
from gateway.events import PurchaseRequested
from gateway.purchase import parse_json_object
from gateway.signed_positions import SignedPosition
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.monitoring import traces
from seckill.web import tokens
from seckill.web.client_address import identify_client

TIMES = 5_000
BATCH_REQUESTS = 32
"""Under load, this many requests share one call to Redis."""
POSITION = RecordPosition("purchase.requests", 3, 123_456)
LATE_MS = 10**15


def measure() -> dict[str, float]:
    """Microseconds by step. It calls the Redis and the broker of the settings."""
    token, (ticket, _) = tokens.issue_token("buyer-1"), tickets.issue_ticket("buyer-1", 1, LATE_MS)
    request_id = uuid4()
    requested = PurchaseRequested(request_id, "buyer-1", 1, "phone", 1, 1_795_000_000_000, 1_795_000_600_000)
    position = SignedPosition("buyer-1", POSITION, 1_795_000_600_000)
    value = requested.envelope().encode()
    signed = signed_positions.sign_position(request_id, position)
    on_loop = asyncio.run(_measure_on_loop(value))
    return {
        "token": _each(lambda: tokens.verify_token(token)),
        "JSON in": _each(lambda: parse_json_object(b'{"quantity":1}')),
        "request id": _each(lambda: identity.derive_request_id(settings.SECRET_KEY, "buyer-1", 1, "first")),
        "ticket": _each(lambda: tickets.verify_ticket(ticket, "buyer-1", 1)),
        "address": _each(lambda: identify_client("127.0.0.1", "10.1.2.3")),
        **on_loop,
        "trace": _each(lambda: traces.continued(None, request_id)),
        "envelope": _each(lambda: requested.envelope().encode()),
        "signed position": _each(lambda: signed_positions.sign_position(request_id, position)),
        "JSON out": _each(lambda: accepted_response.encode_accepted(request_id, POSITION, 1, None, signed)),
    }


async def _measure_on_loop(value: bytes) -> dict[str, float]:
    return {
        f"waiting in a batch of {BATCH_REQUESTS}": await _batches(BATCH_REQUESTS, _answer_at_once),
        f"admission, {BATCH_REQUESTS} in a batch": await _admissions(BATCH_REQUESTS),
        "admission, one by one": await _admissions(1),
        f"produce, {BATCH_REQUESTS} in a request": await _produce(value, BATCH_REQUESTS),
    }


async def _answer_at_once(items: Sequence[int]) -> Sequence[int]:
    return items


async def _batches(size: int, work: Any) -> float:
    """Per request: what a batch costs beside the work that is done in it."""
    batcher: MicroBatcher[int, int] = MicroBatcher(work)
    times = TIMES // size
    began = time.thread_time()
    for _ in range(times):
        await asyncio.gather(*(batcher.run(number) for number in range(size)))
    return (time.thread_time() - began) / times / size * 1e6


async def _admissions(size: int) -> float:
    """Per request, in batches of this size."""
    times = 500
    crowd = [[_admission_request(uuid4()) for _ in range(size)] for _ in range(times + 1)]
    await admission.admit_requests(crowd.pop())
    began = time.thread_time()
    for requests in crowd:
        await admission.admit_requests(requests)
    return (time.thread_time() - began) / times / size * 1e6


async def _produce(value: bytes, size: int) -> float:
    """Per record; to the topic of dead letters, which nothing reads here."""
    topic, times = PURCHASE_REQUESTS.dead, TIMES // size
    options = {"bootstrap_servers": settings.ENVIRONMENT.kafka_bootstrap_servers}
    producer = BatchProducer(options, [topic])
    await producer.connect()
    loop = asyncio.get_running_loop()
    began = time.thread_time()
    for _ in range(times):
        settled = [loop.create_future() for _ in range(size)]
        for future in settled:
            sent = producer.send(topic, key=b"buyer-1", value=value, headers=[], partition=0)
            sent.add_both(future.set_result)
        await asyncio.gather(*settled)
    took_s = time.thread_time() - began
    await producer.close(0)
    return took_s / times / size * 1e6


def _admission_request(request_id: UUID) -> AdmissionRequest:
    name = request_id.hex
    return AdmissionRequest(
        request_id, "0123456789abcdef", name, name[:12], 0, LATE_MS, ticket_number=name[:16],
        ticket_expires_at_ms=LATE_MS,
    )  # fmt: skip


def _each(step: Callable[[], object]) -> float:
    step()
    began = time.thread_time()
    for _ in range(TIMES):
        step()
    return (time.thread_time() - began) / TIMES * 1e6
