"""Shell: the demo, step by step. The exit code is the report's, or 3 if the demo itself failed.

With `--unsafe`, a handler without safeguards replaces inventory, on a database without its constraints. Then the report
has to fail, and for the right reasons, because a checker that cannot fail proves nothing.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from seckill.lab.crowd_log import CrowdLog
from seckill.lab.demo import statistics
from seckill.lab.demo.progress import Meter
from seckill.lab.demo.screen import Screen
from seckill.lab.demo.timeline import KILL, KILL_BROKER, KILL_RELAY, RELAY, Inventory, Timeline
from seckill.lab.kafka_target import KafkaTarget
from seckill.lab.lab_stack import ExperimentFailed, LabStack
from seckill.stack.control import StackFault

BUYER_PATIENCE_S = 90.0
SAMPLE_S = 0.25
FILE_WIDTH_COLUMNS = 160
MUST_FAIL = ("I1", "I2", "I9", "I12")
DEMO_FAILED = 3
STYLES = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "yellow", "NOT RUN": "dim"}


@dataclass(frozen=True, slots=True)
class DemoSize:
    """The time to pay is short, so that units of buyers who do not pay return while the demo runs."""

    units: int = 500
    buyers: int = 3000
    opens_in_s: float = 8.0
    over_s: float = 12.0
    payment_ttl_s: int = 30
    celery_workers: int = 2  # one worker would need a minute for thousands of messages


QUICK = DemoSize(40, 240, 3.0, 4.0, 6, 1)


def run_demo(
    folder: Path, size: DemoSize, *, unsafe: bool, stay: bool, brokers: int = 1, kafka: KafkaTarget | None = None
) -> int:
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else FILE_WIDTH_COLUMNS)
    scale = {"inventory": 0} if unsafe else {"celery": size.celery_workers}
    # The relay dies once, after it has published its first events and before it deletes them: they are published twice.
    fault_point = f"{RELAY}.before_delete:once"
    if kafka is not None:
        kafka.log_in()
    stack = LabStack(
        folder / time.strftime("%Y%m%d-%H%M%S"), scale, size.payment_ttl_s, fault_point, brokers=brokers, kafka=kafka
    )
    code, verdict = DEMO_FAILED, "NONE"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends like Ctrl-C, so it leaves no stack behind
    try:
        code, verdict = _run(console, stack, size, unsafe=unsafe, stay=stay)
    except (ExperimentFailed, StackFault) as fault:
        console.print(f"[red]the demo itself failed:[/] {fault}", highlight=False)
    except KeyboardInterrupt:
        code = 130
        console.print("interrupted")
    finally:
        console.print("stopping everything, in reverse order …")
        stack.stop()
    console.print(f"VERDICT: {verdict}", style=STYLES.get(verdict, "red"), highlight=False)
    return code


def _run(console: Console, stack: LabStack, size: DemoSize, *, unsafe: bool, stay: bool) -> tuple[int, str]:
    began = time.monotonic()
    console.print(f"[bold]1[/]  starting everything in {stack.folder}", highlight=False)
    stack.start()
    inventory = Inventory(stack, unsafe)
    inventory.start()
    console.print(f"   up after {time.monotonic() - began:.0f} s: {stack.gateway}", highlight=False)
    if unsafe:
        console.print("   [red]safeguards off:[/] no inbox, no lock, no constraint; read, then write", highlight=False)
    no_statistics = "they are off with --unsafe" if unsafe else statistics.why_unavailable(stack)
    faults = (KILL, KILL_RELAY, KILL_BROKER) if stack.can_kill_broker else (KILL, KILL_RELAY)
    stack.evidence_folder.declare(*faults, off=["analytics"] if no_statistics else [])
    sale = stack.create_sale(size.units, price=9900, opens_in=size.opens_in_s)
    _run_sale(console, stack, sale, size, inventory)
    console.print("[bold]4[/]  do the books balance?")
    statistics_page = _compute_statistics(console, stack, no_statistics)
    code, verdict = _report(console, stack, statistics_page, unsafe=unsafe)
    if stay:
        console.print(f"[bold]5[/]  the stack keeps running at {stack.gateway}; Ctrl-C stops it", highlight=False)
        _wait_for_interrupt()
    return code, verdict


def _run_sale(console: Console, stack: LabStack, sale: int, size: DemoSize, inventory: Inventory) -> None:
    opening = f"it opens in {size.opens_in_s:.0f} s"
    console.print(f"[bold]2[/]  sale {sale}: {size.units:,} units, {size.buyers:,} buyers, {opening}", highlight=False)
    log = stack.evidence / "rush.jsonl"
    crowd = stack.spawn(
        "crowd", "loadtest.rush", "--url", stack.gateway, "--sale", str(sale), "--log", str(log),
        "--buyers", str(size.buyers), "--over", str(size.over_s), "--patience", str(BUYER_PATIENCE_S),
        "--greedy", "0.3", "--storm", "0.02", "--farms", "3", "--connections", "128",
    )  # fmt: skip
    began = time.monotonic()
    meter = Meter(CrowdLog(log), stack.database)
    with Screen(console, meter, size.units) as screen:
        timeline = Timeline(
            stack, inventory, crowd, screen.print, kill_after=size.buyers // 4, payment_ttl_s=size.payment_ttl_s,
            crowd_seconds_max=size.opens_in_s + BUYER_PATIENCE_S,
        )  # fmt: skip
        while not timeline.is_over(meter.take_sample(time.monotonic() - began)):
            screen.refresh()
            time.sleep(SAMPLE_S)
    console.print(stack.log_text("crowd").rstrip(), highlight=False, markup=False)


# ── the report ───────────────────────────────────────────────────────────────────────────────────


def _compute_statistics(console: Console, stack: LabStack, why_not: str | None) -> Path | None:
    if why_not is not None:
        console.print(f"   no statistics: {why_not}", highlight=False)
        return None
    began = time.monotonic()
    page = statistics.compute(stack)
    result = f"done in {time.monotonic() - began:.0f} s" if page else f"[red]failed[/]: see {stack.folder / 'stats'}"
    console.print(f"   Spark counts everything in the topics: {result}", highlight=False)
    return page


def _report(console: Console, stack: LabStack, statistics_page: Path | None, *, unsafe: bool) -> tuple[int, str]:
    page, numbers = stack.folder / "report.html", stack.folder / "report.json"
    patience = "10" if unsafe else "90"  # without safeguards the system may never settle
    done = stack.run(
        "seckill.cli", "report", "--data", str(stack.folder), "--json", str(numbers), "--html", str(page),
        "--patience", patience, exit_codes=(0, 1, 2),
    )  # fmt: skip
    (stack.folder / "report.txt").write_text(done.stdout)
    if statistics_page is not None:
        statistics.embed(page, statistics_page)
    report: dict[str, Any] = json.loads(numbers.read_text())
    console.print(_table(report["invariants"]))
    for each in report["invariants"]:
        _explain(console, each)
    console.print(f"everything on one page: {page}", highlight=False, soft_wrap=True)
    code, verdict = done.returncode, str(report["verdict"])
    if unsafe:
        invariants = {each["name"]: each["verdict"] for each in report["invariants"]}
        intact = [name for name in MUST_FAIL if invariants[name] != "FAIL"]
        if intact:
            console.print(f"[red]these should fail without safeguards, and did not:[/] {', '.join(intact)}")
            return DEMO_FAILED, verdict
        console.print(f"as expected without safeguards: {', '.join(MUST_FAIL)} fail, and the report names the requests")
    return code, verdict


def _table(invariants: list[dict[str, Any]]) -> Table:
    table = Table("", "invariant", "verdict", "checked", "violations", box=None, pad_edge=False)
    for each in invariants:
        verdict = f"[{STYLES[each['verdict']]}]{each['verdict']}[/]"
        violations = f"{each['violations']:,}" if each["violations"] else ""
        table.add_row(each["name"], each["title"], verdict, f"{each['looked_at']:,}", violations)
    return table


def _explain(console: Console, invariant: dict[str, Any]) -> None:
    """The first reasons and examples of a violation."""
    if invariant["verdict"] not in ("FAIL", "UNKNOWN"):
        return
    console.print(f"[{STYLES[invariant['verdict']]}]{invariant['name']}[/] {invariant['title']}", highlight=False)
    for reason in invariant["reasons"][:2]:
        console.print(f"   {reason}", highlight=False, markup=False)
    for example in invariant["examples"][:3]:
        subject = " ".join(f"{kind} {name}" for kind, name in example["subject"].items())
        console.print(f"   {example['text']}  {subject}", highlight=False, markup=False, soft_wrap=True)


def _wait_for_interrupt(sleep: Callable[[float], None] = time.sleep) -> None:
    try:
        while True:
            sleep(1)
    except KeyboardInterrupt:
        pass
