"""Buyers click twice, use two gateways, come too early or too late, or come in thousands."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.fault_run import FaultRun
from seckill.lab.faults.scripted_buyers import Buyer, at_once
from seckill.lab.faults.second_gateway import second_gateway

PAIRS = 12
BOT_ATTEMPTS = 1000


@case(
    "1", "double-click", "every buyer clicks twice with the same key",
    crowd=CrowdPlan(options=("--double-click", "1")),
)  # fmt: skip
def double_click(run: FaultRun) -> Steps:
    yield
    accepted: Counter[str] = Counter()
    for line in run.crowd.log.read_text().splitlines():
        record = json.loads(line)
        if record["what"] == "purchase" and record["status"] == 202:
            accepted[record["request_id"]] += 1
    run.prove("requests accepted more than once", sum(count > 1 for count in accepted.values()))
    run.record("requests that inventory read twice", run.stack.database.redelivered())


@case("2", "two-doors", "each buyer sends two keys through two gateways at the same instant")
def two_gateways(run: FaultRun) -> Steps:
    with second_gateway(run.stack) as other, run.buyer_log("two-doors", run.stack.create_sale(PAIRS)) as log:
        for number in range(PAIRS):
            buyer = run.buyer(f"twofold-{number}", log)
            at_once([lambda buyer=buyer: buyer.buy("left"), lambda buyer=buyer: buyer.buy("right", via=other)])  # type: ignore[misc]
    yield
    run.prove("users with two requests decided", run.stack.database.users_with_two_decisions(log.sale, "twofold-"))
    run.record("refused as duplicates", run.stack.database.decided_as("DUPLICATE"))


@case("33", "skewed-clock", "the clock of one gateway is 90 s ahead, then 90 s behind")
def skewed_clock(run: FaultRun) -> Steps:
    accepted = 0
    with run.buyer_log("skewed-clock", run.stack.create_sale(3 * PAIRS)) as log:
        for skew_s in (90, -90):
            with second_gateway(run.stack, skew_s) as other:
                for number in range(PAIRS):
                    accepted += run.buyer(f"skewed{skew_s}-{number}", log).buy(via=other).status == 202
    yield
    run.prove("accepted by a gateway whose clock was wrong", accepted)


@case(
    "34", "before-and-after",
    "requests before the sale opens, after it has closed, and with another buyer's ticket",
)  # fmt: skip
def before_and_after(run: FaultRun) -> Steps:
    with run.buyer_log("before-and-after", run.stack.create_sale(5, opens_in=8, lasts=12)) as log:
        early = run.buyer("early", log)
        is_too_early = early.attempt().status == 403
        is_accepted = early.buy().status == 202
        is_stolen_refused = run.buyer("thief", log).attempt(ticket=early.fetch_ticket()).status == 403
        keys = itertools.count()  # a known key would always get its own old response
        run.stack.wait_until(lambda: early.attempt(f"again-{next(keys)}").status == 410, "the sale to close")
        is_too_late = run.buyer("late", log).attempt().status == 410
    yield
    run.prove("refused before the opening", is_too_early)
    run.prove("accepted during the sale", is_accepted)
    run.prove("refused with another buyer's ticket", is_stolen_refused)
    run.prove("refused after the end", is_too_late)


@case(
    "35", "hot-article", "the whole crowd wants one article while a quiet sale goes on beside it",
    crowd=CrowdPlan(buyers=300),
)  # fmt: skip
def hot_article(run: FaultRun) -> Steps:
    with run.buyer_log("hot-article", run.stack.create_sale(50)) as log:
        began = time.monotonic()
        buyers = [run.buyer(f"calm-{number}", log) for number in range(5)]
        served = [buyer.wait_for(buyer.buy().request, "AWAITING_PAYMENT", "EXPIRED") for buyer in buyers]
        took_ms = int((time.monotonic() - began) * 1000)
    yield
    run.prove("served in the quiet sale", sum(bool(purchase) for purchase in served))
    run.record("time that took, ms", took_ms)


@case("36", "bots", "one account sends a thousand requests, and a hundred accounts share one IP address")
def bots(run: FaultRun) -> Steps:
    with run.buyer_log("bots") as log, ThreadPoolExecutor(16) as threads:
        bot = run.buyer("bot", log, "10.6.6.6")
        keys = [f"key-{number}" for number in range(BOT_ATTEMPTS)]
        alone = Counter(response.status for response in threads.map(bot.attempt, keys))
        puppets = list(threads.map(lambda number: run.buyer(f"puppet-{number}", log, "10.7.7.7"), range(100)))
        together = Counter(response.status for response in threads.map(Buyer.attempt, puppets))
    yield
    run.prove("attempts of one account that were rate-limited", alone[429])
    run.record("attempts of that account accepted", alone[202])
    run.record("accounts at one address accepted", together[202])
    run.record("units of the one account", run.stack.database.active_units(run.sale, "bot"))
