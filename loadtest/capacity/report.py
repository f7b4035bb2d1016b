"""Codec: a plan as text for a terminal, and the page docs/generated/capacity.md."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.capacity.check import ERROR_MAX, Compared
from loadtest.capacity.costs import ACTIONS, CPU, Costs
from loadtest.capacity.plan import NEXT_DESIGN, Plan
from loadtest.capacity.simulation import Speeds

ACTION_TITLES = {
    "request": "a purchase, from the call to the outcome",
    "poll": "a status poll",
    "unit": "a unit: order, messages",
    "visit": "a visit: sign-in, page, ticket",
    "payment": "a payment: provider, callback, messages, its polls",
}
CPU_SHOWN_US = 0.5


def plan_text(plan: Plan) -> str:
    wish, waits, wall = plan.wish, plan.waits, plan.wall
    width = max(len(part.name) for part in plan.parts)
    lines = [
        f"{wish.buyers:,} buyers within {wish.over_s:g} s for {wish.units:,} units; 99 % know their outcome within"
        f" {wish.wait_p99_s:g} s",
        "",
    ]
    for part in plan.parts:
        share = "" if part.share is None else f"  [{part.share:.0%} of its limit]"
        lines.append(f"  {part.name:<{width}} {part.count:>6,}  {part.need}{share}")
    lines += [
        f"  {'memory':<{width}} {plan.memory_gb:>6,.0f}  GB, without Postgres, the brokers' page cache and the system",
        "",
        f"simulated: half of the buyers know after {waits.p50_s:.1f} s, 99 % after {waits.p99_s:.1f} s,"
        f" all after {waits.max_s:.1f} s",
        f"the wall: {wall.name}, at {wall.share or 0:.0%} of its limit",
        f"next design: {NEXT_DESIGN[wall.name]}",
        "",
        "The wish can be met." if plan.is_met else "The wish cannot be met as the system is built.",
    ]
    return "\n".join(lines)


def page(costs: Costs, speeds: Speeds, compared: Sequence[Compared], example: Plan, picture: str) -> str:
    about = "\n".join(f"* {name}: {value}" for name, value in costs.about.items())
    idle = sum(value for name, value in costs.idle.items() if name.startswith(CPU))
    wish = example.wish

    def amount(resource: str) -> float:
        return costs.of("request", resource)

    return f"""# What a sale needs

Written by `python -m loadtest.capacity --measure --check`; run it again to compare.
[Scaling](../scaling.md) explains the model.

{about}

## What each action costs

Microseconds of one core, for each action and part. The runs: {_runs(costs)}.

{_cost_table(costs)}

* A purchase writes {amount("broker.bytes"):,.0f} bytes of log and {amount("postgres.wal_bytes"):,.0f} of WAL, keeps
  {amount("redis.bytes"):,.0f} bytes in Redis, and needs {amount("redis.commands"):.1f} of its commands.
* At these rates consumers find small batches, so a purchase costs them more than in a backlog. The plan takes its
  numbers of consumers from the full batches of the next table.
* Without buyers the stack uses {idle:.0%} of a core.
* Under load it used {costs.busy_share:.0%} of the {costs.cores} cores. A commit took {costs.commit_ms:.2f} ms.

## What one process can do

From [decisions](decisions.md), except the last two rows.

| stage | |
|---|--:|
| one consumer of inventory, full batches | {1 / speeds.decide_s:,.0f} requests/s |
| the fixed part of a batch | {1000 * speeds.batch_s:.1f} ms |
| one stock row | {1 / speeds.grant_s:,.0f} units/s |
| one relay | {1 / speeds.publish_s:,.0f} rows/s |
| one consumer of `gateway.outcomes` | {costs.records_per_s["gateway.outcomes"]:,.0f} outcomes/s |
| one consumer of `orders` | {costs.records_per_s["orders"]:,.0f} decisions/s |

## Predictions checked

Rushes of other sizes than those above, on the same machine, until the last message was delivered. The generator gives
up ten seconds after the last purchase is due, so a rush has fewer purchases than were planned. An error of more than
{ERROR_MAX:.0%} is marked.

{_check_table(compared)}

## An example

    {_command(example)}

{_indented(plan_text(example))}

## Wait against consumers

![The wait of 99 % of the buyers against the number of inventory's consumers, for four crowds]({picture})

Simulated: buyers arrive within {wish.over_s:g} s, one in forty gets a unit. There are enough gateways to accept all of
them as they arrive, as many consumers of outcomes as of inventory, and Postgres keeps up. Solid lines: one relay, as
built. Dashed lines: as many relays as consumers.
"""


def _command(plan: Plan) -> str:
    wish = plan.wish
    options = f"--buyers {wish.buyers} --over {wish.over_s:g} --units {wish.units} --wait-p99 {wish.wait_p99_s:g}"
    return f"python -m loadtest.capacity {options}"


def _runs(costs: Costs) -> str:
    return "; ".join(
        f"{run.actions.request:,} purchases"
        + (f", {run.actions.poll:,} polls" if run.actions.poll else "")
        + (f", {run.actions.unit:,} units" if run.actions.unit > 1 else "")
        + (f", {run.actions.payment:,} payments" if run.actions.payment else "")
        + f" ({run.settled_s:.0f} s)"
        for run in costs.runs
    )


def _cost_table(costs: Costs) -> str:
    services = [name.removeprefix(CPU) for name in costs.resources() if name.startswith(CPU)]
    services.sort(key=lambda name: -costs.cpu_us("request", name))
    head = "| part | " + " | ".join(ACTION_TITLES[action] for action in ACTIONS) + " |"
    rows = [head, "|---|" + "--:|" * len(ACTIONS)]
    for service in services:
        values = [costs.cpu_us(action, service) for action in ACTIONS]
        if max(values) >= CPU_SHOWN_US:
            title = "(the load's generator)" if service == "load" else service
            rows.append(f"| {title} | " + " | ".join(_micro(value) for value in values) + " |")
    totals = [sum(costs.cpu_us(action, each) for each in services if each != "load") for action in ACTIONS]
    return "\n".join([*rows, "| **sum without the generator** | " + " | ".join(map(_micro, totals)) + " |"])


def _micro(value: float) -> str:
    return f"{value:,.0f}" if value >= CPU_SHOWN_US else ""


def _check_table(compared: Sequence[Compared]) -> str:
    rows = [
        "| purchases | within | units | polls | seconds measured | predicted | error | CPU seconds measured | predicted"
        " | error |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for each in compared:
        run, wanted, errors = each.run, each.predicted, each.errors
        rows.append(
            f"| {run.actions.request:,} | {run.over_s:g} s | {run.actions.unit:,} | {run.actions.poll:,}"
            f" | {run.settled_s:.1f} | {wanted.seconds:.1f} | {_error(errors['seconds'])}"
            f" | {run.cpu_s:.1f} | {wanted.cpu_s:.1f} | {_error(errors['CPU seconds'])} |"
        )
    return "\n".join(rows)


def _error(value: float) -> str:
    return f"{value:+.0%}" + ("" if abs(value) <= ERROR_MAX else " ✗")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
