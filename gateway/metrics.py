"""The gateway process's own /metrics: purchases by answer, its view of the queue, its circuit breaker.

These counts live and die with the process. Values that come from tables are on the pages of the sweeps
(`seckill sweep --metrics-port`).
"""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from prometheus_client import Histogram

from gateway.backlog_monitor import shared_monitor
from gateway.door import door
from gateway.submissions import State
from seckill.monitoring.metrics import CONTENT_TYPE, ComputedMetric, Sample, registry_of, render
from seckill.resilience.shared_value import SharedValue

ANSWER_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
ACCEPTED = "accepted"


def _ask_queue_state() -> list[State]:
    try:
        return [door.behind.state()]
    except TimeoutError:
        return []


_shared_state = SharedValue(_ask_queue_state, fresh_seconds=0)


def _queue_state() -> list[State]:
    """Empty if the state cannot be read. At most one thread waits for it, even when several scrapes run at once."""
    return _shared_state.get() or []


def _submissions() -> Iterable[Sample]:
    return [
        ((end,), float(count)) for state in _queue_state()
        for end, count in (("acknowledged", state.acknowledged), ("failed", state.failed))
    ]  # fmt: skip


def _undecided() -> Iterable[Sample]:
    return [((topic,), float(left)) for topic, left in shared_monitor().undecided().items()]


def _wait_seconds() -> Iterable[Sample]:
    waits = {topic: shared_monitor().wait_ms(topic) for topic in shared_monitor().undecided()}
    return [((topic,), wait / 1000) for topic, wait in waits.items() if wait is not None]


REGISTRY = registry_of(
    ComputedMetric(
        "seckill_submissions_total", "requests sent to the broker, by outcome", ("end",),
        _submissions, is_counter=True,
    ),
    ComputedMetric(
        "seckill_turnstile_waiting", "purchases waiting for admission or for the broker's acknowledgement", (),
        lambda: [((), float(door.waiting))],
    ),
    ComputedMetric(
        "seckill_queue_breaker_state", "this process's circuit breaker for the queue: 0 closed, 1 half-open, 2 open",
        (), lambda: [((), float(state.breaker)) for state in _queue_state()],
    ),
    ComputedMetric("seckill_queue_undecided", "requests that inventory has not decided yet, as this process sees it",
                   ("topic",), _undecided),
    ComputedMetric("seckill_queue_wait_seconds", "estimated wait of a request made now; absent while unknown",
                   ("topic",), _wait_seconds),
)  # fmt: skip
PURCHASES = Histogram(
    "seckill_purchase_seconds", "purchase requests answered: `accepted` (202, the broker has it) or the problem's type",
    ("answer",), buckets=ANSWER_SECONDS_BUCKETS, registry=REGISTRY,
)  # fmt: skip


def observe_purchase(answer: str, seconds: float) -> None:
    """Called for every purchase, on the event loop or on a thread. No scrape ever holds it up: a scrape takes only the
    short locks of single numbers, so it may wait for the loop to report the queue's state."""
    PURCHASES.labels(answer).observe(seconds)


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(render(REGISTRY), content_type=CONTENT_TYPE)
