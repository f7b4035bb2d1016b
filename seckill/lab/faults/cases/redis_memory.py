"""Two sales at once, and buyers who return after Redis has lost or rewound its knowledge of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.crowd import CrowdProcess
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import Buyer, BuyerLog

BUYERS = 12
GRANTED = ("RESERVED", "AWAITING_PAYMENT", "PAID", "EXPIRED", "CANCELLED")
SECOND = CrowdPlan(units=120, buyers=200, over_s=8)


@case(
    "47", "two-sales", "two sales run at once, so their batches compete for the same rows",
    crowd=CrowdPlan(units=120, over_s=8),
)  # fmt: skip
def two_sales(run: FaultRun) -> Steps:
    database = run.stack.database
    deadlocks = database.deadlocks()
    sale = run.stack.create_sale(run.scaled(SECOND.units))
    plan = CrowdPlan(run.scaled(SECOND.units), run.scaled(SECOND.buyers), SECOND.over_s)
    crowd = CrowdProcess(run.stack.gateway, sale, plan, run.stack.evidence / "two-sales.second.jsonl")
    try:
        yield
        crowd.wait()
    finally:
        crowd.kill()
    for name, number in (("first", run.sale), ("second", sale)):
        run.prove(f"ledger entries of the {name} sale", database.ledger_entries(number))
    run.stack.wait_until(lambda: database.reserved_holds() == 0, "all orders to end")
    run.prove("no deadlock", database.deadlocks() == deadlocks)


@contextmanager
def _holders(run: FaultRun, name: str) -> Iterator[tuple[BuyerLog, dict[str, Buyer]]]:
    """Buyers who have seen that they hold a unit, by their requests."""
    count = run.scaled(BUYERS)
    with run.buyer_log(name, run.stack.create_sale(2 * count)) as log:
        buyers = [run.buyer(f"{name}-{number}", log) for number in range(count)]
        with ThreadPoolExecutor(count) as pool:
            requests = list(pool.map(lambda buyer: buyer.buy().request, buyers))
        holders = dict(zip(requests, buyers, strict=True))
        for request, buyer in holders.items():
            buyer.wait_for(request, *GRANTED)
        yield log, holders


def _buy_again(run: FaultRun, holders: dict[str, Buyer]) -> None:
    """Every holder repeats the request with the same key, then polls it."""
    known = [request for request, buyer in holders.items() if buyer.buy().request == request]
    run.prove("known under the same key", len(known))
    states = [str(buyer.poll(request).get("state")) for request, buyer in holders.items()]
    run.prove("no buyer saw an older state", all(state in GRANTED for state in states))
    if len(known) < len(holders):
        run.missing.append(f"{len(holders) - len(known)} requests were not known under their key")


@case(
    "48", "redis-rewound", "Redis restarts with data from before a purchase, and its buyer asks again",
    crowd=CrowdPlan(over_s=8),
)  # fmt: skip
def rewound(run: FaultRun) -> Steps:
    folder, copy = run.stack.folder / "redis", run.stack.folder / "redis.before"
    shutil.copytree(folder, copy)
    with _holders(run, "redis-rewound") as (_, holders):
        run.stack.send("stop", name="redis")
        shutil.rmtree(folder)
        copy.rename(folder)
        run.stack.send("start", name="redis")
        run.stack.wait_until_up("redis")
        redis = run.stack.redis()
        forgotten = [request for request in holders if not redis.exists(f"admission:request:{request}")]
        run.prove("requests that Redis no longer knows", len(forgotten))
        _buy_again(run, holders)
    yield


@case(
    "49", "known-key-after-flush",
    "buyers hold units, Redis loses everything, the sale is closed, and the buyers repeat their requests",
)  # fmt: skip
def known_key(run: FaultRun) -> Steps:
    with _holders(run, "known-key-after-flush") as (log, holders):
        run.stack.redis().flushall()
        run.stack.operate("sale", "close", str(log.sale))
        _buy_again(run, holders)
        stranger = run.buyer("known-key-stranger", log).buy()
        run.prove("a new buyer is refused", stranger.status == 410)
    yield
