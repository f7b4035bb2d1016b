"""Lab 2. Both variants decide under the row's lock. Broken: one transaction for each buyer. Fixed: one for a batch."""

from __future__ import annotations

import threading
import time
from functools import partial

from django.db import connection

from inventory import gate
from inventory.models import DecidedRequest, Stock
from seckill.lab.labs.child import Step
from seckill.lab.labs.lab import Chart, Observation, Variant
from seckill.lab.labs.steps import purchases

REQUESTS, CONSUMERS, BATCH = 2400, 8, 300
DEADLINE_S = 3.0
SAMPLE_S = 0.1
COMMITS_TIMED = 51


def run(step: Step, variant: Variant) -> Observation:
    size = 1 if variant is Variant.BROKEN else BATCH
    stock = purchases.create_stock(REQUESTS)
    purchases.decide(purchases.batch_of([purchases.request(stock, "warm-up")], CONSUMERS))  # connects and prepares
    commit_ms = _commit_ms()
    points, until = [(0.0, 0.0)], time.monotonic() + DEADLINE_S
    commits: list[float] = []
    gate_is_closed = partial(purchases.replaced, gate, "propose", lambda *call: [gate.Proposal.CLOSED] * len(call[-1]))

    def consume(partition: int) -> None:
        for start in range(0, REQUESTS // CONSUMERS, size):
            if time.monotonic() > until:
                return
            users = [f"user-{partition}-{start + at}" for at in range(size)]
            requests = [purchases.request(stock, user) for user in users]
            began = time.monotonic()
            purchases.decide(purchases.batch_of(requests, partition, start))
            commits.append(time.monotonic() - began)

    sampler = threading.Thread(target=_sample, args=(stock, points, until), daemon=True)
    with gate_is_closed():
        sampler.start()
        purchases.in_threads([partial(consume, partition) for partition in range(CONSUMERS)])
    undecided = REQUESTS - _decided(stock)
    sampler.join()
    return Observation(
        max(0, undecided),
        {
            "requests": REQUESTS, f"decided within {DEADLINE_S:.0f} s": REQUESTS - undecided,
            "a commit of one row, alone": f"{commit_ms:.1f} ms",
            "transactions": len(commits), "requests in each": size,
            "the median transaction, with its wait": f"{sorted(commits)[len(commits) // 2] * 1000:.0f} ms",
        },
        Chart("seconds:", "requests decided", points, limit=REQUESTS, limit_name=f"{REQUESTS:,} requests"),
    )  # fmt: skip


def _commit_ms() -> float:
    """The median of a few commits while nothing else runs: the disk, and little else."""
    times = []
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE lab_commit (at timestamptz)")
        for _ in range(COMMITS_TIMED):
            began = time.monotonic()
            cursor.execute("INSERT INTO lab_commit VALUES (now())")
            times.append(time.monotonic() - began)
    return sorted(times)[len(times) // 2] * 1000


def _decided(stock: Stock) -> int:
    return DecidedRequest.objects.filter(sale_id=stock.sale_id).exclude(user_id="warm-up").count()


def _sample(stock: Stock, points: list[tuple[float, float]], until: float) -> None:
    began = until - DEADLINE_S
    while time.monotonic() < until:
        time.sleep(SAMPLE_S)
        points.append((round(time.monotonic() - began, 2), float(_decided(stock))))
    connection.close()
