"""What a gateway process shows to Prometheus on its own /metrics: purchases, the queue as it sees it, its breaker.

Counted by the process and forgotten with it; what stands in tables the sweeps show (`seckill sweep --metrics-port`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from gateway.door import door
from gateway.submissions import State
from gateway.watching import watch
from mqcore.metrics import Family, Histogram, Observed, Sample
from seckill.cached import Cached
from seckill.metrics import page

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
ACCEPTED = "accepted"

PURCHASES = Histogram(
    "seckill_purchase_seconds",
    "purchases answered, by what was said: accepted (202, the broker has it), or the problem",
    ("answer",),
    BOUNDS_S,
)
_counting = threading.Lock()


def count(answer: str, seconds: float) -> None:
    with _counting:
        PURCHASES.histogram(answer).observe(seconds)


def _look_at_state() -> list[State]:
    try:
        return [door.behind.state()]
    except TimeoutError:
        return []


_shared_state = Cached(_look_at_state, fresh_s=0)


def _state() -> list[State]:
    """Nothing while it cannot be asked. At most one thread waits for it, however many scrape."""
    return _shared_state.get() or []


def _backlog() -> Iterable[Sample]:
    return [((topic,), float(left)) for topic, left in watch().undecided().items()]


def _wait() -> Iterable[Sample]:
    waits = {topic: watch().wait_ms(topic) for topic in watch().undecided()}
    return [((topic,), wait / 1000) for topic, wait in waits.items() if wait is not None]


FAMILIES: list[Family] = [
    PURCHASES,
    Observed(
        "seckill_submissions_total", "requests handed to the broker, by what came of it", "counter", ("end",),
        lambda: [((end,), float(getattr(state, end))) for state in _state() for end in ("acknowledged", "failed")],
    ),
    Observed(
        "seckill_turnstile_waiting", "buyers' threads that wait to be admitted or acknowledged", "gauge", (),
        lambda: [((), float(door.waiting))],
    ),
    Observed(
        "seckill_queue_breaker_state", "of this process's breaker before the queue: 0 closed, 1 half-open, 2 open",
        "gauge", (), lambda: [((), float(state.breaker)) for state in _state()],
    ),
    Observed("seckill_queue_undecided", "requests that inventory has yet to decide, as seen here", "gauge", ("topic",),
             _backlog),
    Observed("seckill_queue_wait_seconds", "what whoever comes now would wait; absent while nobody knows", "gauge",
             ("topic",), _wait),
]  # fmt: skip


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    counted, *asked = FAMILIES
    with _counting:  # no new answer comes up meanwhile
        text = page([counted])
    text += page(asked)  # not under the lock: the clerk is asked, and he answers by the loop, which counts
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")
