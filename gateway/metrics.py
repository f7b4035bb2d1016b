"""The gateway's own /metrics: purchases by answer, its view of the queue, its circuit breaker, its event loop.

The numbers belong to this process. Values read from tables are on the metrics pages of the sweeps
(`seckill sweep --metrics-port`). With several workers a scrape reaches any one of them, so PROMETHEUS_MULTIPROC_DIR
names an empty folder in which prometheus-client shares the numbers; the page then shows their sums.
"""

from __future__ import annotations

import asyncio
import os
import re
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from gateway.backlog_monitor import shared_monitor
from seckill.messaging.topics import REQUEST_TOPICS
from seckill.monitoring.metrics import CONTENT_TYPE, render

if TYPE_CHECKING:
    from gateway.purchase import Purchases
    from gateway.subscriptions import StreamHub

ANSWER_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
ACCEPTED = "accepted"
PUBLISH_INTERVAL_S = 0.5
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

REGISTRY = CollectorRegistry()
OFFERED = Counter("seckill_purchases_offered", "purchase requests received, whatever their answer", registry=REGISTRY)
PURCHASES = Histogram(
    "seckill_purchase_seconds", "purchase requests answered: `accepted` (202, the broker has it) or the problem's type",
    ("answer",), buckets=ANSWER_SECONDS_BUCKETS, registry=REGISTRY,
)  # fmt: skip
SUBMISSIONS = Counter("seckill_submissions", "requests sent to the broker, by outcome", ("end",), registry=REGISTRY)
ACKNOWLEDGED, FAILED = SUBMISSIONS.labels("acknowledged"), SUBMISSIONS.labels("failed")
WAITING = Gauge(
    "seckill_purchases_waiting", "purchases waiting for admission or for the broker's acknowledgement",
    registry=REGISTRY, multiprocess_mode="livesum",
)  # fmt: skip
STREAMS = Gauge("seckill_streams", "open event streams", registry=REGISTRY, multiprocess_mode="livesum")
BREAKER = Gauge(
    "seckill_queue_breaker_state", "circuit breaker of the queue: 0 closed, 1 half-open, 2 open; of the worst worker",
    registry=REGISTRY, multiprocess_mode="livemax",
)  # fmt: skip
UNDECIDED = Gauge(
    "seckill_queue_undecided", "requests that inventory has not decided yet, as a worker sees it", ("topic",),
    registry=REGISTRY, multiprocess_mode="livemax",
)  # fmt: skip
WAIT_SECONDS = Gauge(
    "seckill_queue_wait_seconds", "estimated wait of a request made now; NaN while unknown", ("topic",),
    registry=REGISTRY, multiprocess_mode="livemax",
)  # fmt: skip
LOOP_LAG = Gauge(
    "seckill_loop_lag_seconds", "how late the event loop ran a timer; of the worst worker", registry=REGISTRY,
    multiprocess_mode="livemax",
)  # fmt: skip

_answers: dict[str, Histogram] = {}


def observe_purchase(answer: str, seconds: float) -> None:
    child = _answers.get(answer)
    if child is None:
        child = _answers[answer] = PURCHASES.labels(answer)
    child.observe(seconds)


async def publish(purchases: Purchases, streams: StreamHub) -> None:
    """Set the gauges twice a second, until cancelled."""
    loop = asyncio.get_running_loop()
    monitor = shared_monitor()
    while True:
        due = loop.time() + PUBLISH_INTERVAL_S
        await asyncio.sleep(PUBLISH_INTERVAL_S)
        LOOP_LAG.set(max(0.0, loop.time() - due))
        WAITING.set(purchases.waiting_count)
        STREAMS.set(streams.stream_count)
        BREAKER.set(purchases.queue.breaker_state())
        undecided = monitor.undecided()
        for topic in REQUEST_TOPICS:
            wait_ms = monitor.wait_ms(topic)
            UNDECIDED.labels(topic).set(undecided.get(topic, nan))
            WAIT_SECONDS.labels(topic).set(nan if wait_ms is None else wait_ms / 1000)


def summed_registry() -> CollectorRegistry:
    """The numbers of all workers of this server."""
    folder = os.environ.get(SHARED_FOLDER)
    if folder is None:
        return REGISTRY
    for file in Path(folder).glob("gauge_live*.db"):
        found = re.search(r"_(\d+)\.db$", file.name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            mark_process_dead(int(found[1]), folder)  # type: ignore[no-untyped-call]  # a killed worker waits for nothing
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    return registry


def offered_total() -> int:
    """Purchases that all workers of this server have received."""
    return int(summed_registry().get_sample_value("seckill_purchases_offered_total") or 0)


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(render(summed_registry()), content_type=CONTENT_TYPE)
