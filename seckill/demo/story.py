"""Shell: the demo, step by step. Exit: that of the report, or 3 if the demo itself failed. It ends with the verdict.

With the guards off (`--unsafe`) a handler of another kind decides instead of inventory, on a database without its
constraints. Then the report has to fail, and for the right reasons: a checker that cannot fail proves nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from seckill.demo import statistics
from seckill.demo.numbers import Count, CrowdLog, Meter
from seckill.demo.screen import Screen
from seckill.demo.stage import DemoFault, Stage
from seckill.stack.control import StackFault

PATIENCE_S = 90.0
REST_S = 180.0
UNSAFE_REST_S = 5.0
"""Without guards it may never come to rest."""
LOOK_S = 0.25
KILL, KILL_RELAY = "kill-inventory", "kill-relay-before-delete"
RELAY = "relay.inventory"
"""It dies once, when its first events are sent and not yet removed: so they are delivered again, for sure."""
WIDE = 160
"""Of a file: nobody's window."""
MUST_FAIL = ("I1", "I2", "I9", "I12")
FAILED = 3
STYLES = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "yellow", "NOT RUN": "dim"}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it. The time to pay is short, so that whoever walks away gives his unit back while somebody looks."""

    units: int = 500
    buyers: int = 3000
    opens_in_s: float = 8.0
    over_s: float = 12.0
    payment_ttl_s: int = 30
    messengers: int = 2  # thousands of messages keep one of them busy for a minute


QUICK = Size(40, 240, 3.0, 4.0, 6, 1)


def play(folder: Path, size: Size, *, unsafe: bool, stay: bool) -> int:
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
    scale = {"inventory": 0} if unsafe else {"celery": size.messengers}
    stage = Stage(folder / time.strftime("%Y%m%d-%H%M%S"), scale, size.payment_ttl_s, f"{RELAY}.before_delete:once")
    code, verdict = FAILED, "NONE"
    try:
        code, verdict = _play(console, stage, size, unsafe=unsafe, stay=stay)
    except (DemoFault, StackFault) as fault:
        console.print(f"[red]the demo itself failed:[/] {fault}", highlight=False)
    except KeyboardInterrupt:
        code = 130
        console.print("interrupted")
    finally:
        console.print("stopping everything, in reverse order …")
        stage.down()
    console.print(f"VERDICT: {verdict}", style=STYLES.get(verdict, "red"), highlight=False)
    return code


def _play(console: Console, stage: Stage, size: Size, *, unsafe: bool, stay: bool) -> tuple[int, str]:
    began = time.monotonic()
    console.print(f"[bold]1[/]  starting everything in {stage.folder}", highlight=False)
    stage.start()
    decider = Decider(stage, unsafe)
    decider.start()
    console.print(f"   up after {time.monotonic() - began:.0f} s: {stage.gateway}", highlight=False)
    if unsafe:
        console.print("   [red]guards off:[/] no inbox, no lock, no constraint; read, then write", highlight=False)
    lacking = "not without guards" if unsafe else statistics.missing(stage)
    stage.declare(KILL, KILL_RELAY, off=["analytics"] if lacking else [])
    sale = stage.create_sale(size.units, size.opens_in_s)
    _run_the_sale(console, stage, sale, size, decider)
    console.print("[bold]4[/]  do the books balance?")
    counted = _count(console, stage, lacking)
    code, verdict = _report(console, stage, counted, unsafe=unsafe)
    if stay:
        console.print(f"[bold]5[/]  it goes on at {stage.gateway}; Ctrl-C stops it", highlight=False)
        _until_interrupted()
    return code, verdict


class Decider:
    """Whoever decides, to be killed in the middle: inventory, or the handler without guards in its place."""

    def __init__(self, stage: Stage, unsafe: bool) -> None:
        self._stage, self.is_unsafe = stage, unsafe
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.is_unsafe:
            self._process = self._stage.spawn("unsafe", "loadtest.peers.unsafe", environment=self._stage.addresses())

    def kill(self) -> int:
        if self._process is None:
            return self._stage.kill("inventory")
        self._process.kill()
        self._process.wait()
        self.start()
        return 1

    def check(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise DemoFault(f"the handler without guards has ended:\n{self._stage.said('unsafe')[-2000:]}")


def _run_the_sale(console: Console, stage: Stage, sale: int, size: Size, decider: Decider) -> None:
    gong = f"the gong in {size.opens_in_s:.0f} s"
    console.print(f"[bold]2[/]  sale {sale}: {size.units:,} units, {size.buyers:,} buyers, {gong}", highlight=False)
    log = stage.evidence / "rush.jsonl"
    crowd = stage.spawn(
        "crowd", "loadtest.rush", "--url", stage.gateway, "--sale", str(sale), "--log", str(log),
        "--buyers", str(size.buyers), "--over", str(size.over_s), "--patience", str(PATIENCE_S),
        "--greedy", "0.3", "--storm", "0.02", "--farms", "3", "--connections", "128",
    )  # fmt: skip
    began = time.monotonic()
    with stage.database() as database:
        meter = Meter(CrowdLog(log), database)
        with Screen(console, meter, size.units) as screen:
            course = Course(stage, decider, crowd, screen, size)
            while not course.is_over(meter.look(time.monotonic() - began)):
                screen.show()
                time.sleep(LOOK_S)
    console.print(stage.said("crowd").rstrip(), highlight=False, markup=False)


class Course:
    """What happens to the sale, each thing once: the fault, the recovery, sold out, the crowd gone, rest."""

    def __init__(
        self, stage: Stage, decider: Decider, crowd: subprocess.Popen[bytes], screen: Screen, size: Size
    ) -> None:
        self._stage, self._decider, self._crowd, self._screen = stage, decider, crowd, screen
        self._size = size
        self._fault_at = size.buyers // 4  # acknowledged requests
        self._rest_s = UNSAFE_REST_S if decider.is_unsafe else REST_S
        self._killed: Count | None = None
        self._stands: Count | None = None
        self._is_back = self._is_sold = self._has_relay_died = False
        self._left: Count | None = None

    def is_over(self, now: Count) -> bool:
        self._decider.check()
        if self._killed is None and now.acknowledged >= self._fault_at and now.decided:
            self._break(now)
        if now.decided and not self._has_relay_died and self._stage.restarts(RELAY):
            self._has_relay_died = True
            self._stage.note_fault(KILL_RELAY, time.time_ns() // 1_000_000)
            self._screen.tell("   the relay has died between sending and removing: some decisions are published again")
        if self._killed is not None and not self._is_back:
            self._look_for_recovery(self._killed, now)
        if not self._is_sold and now.free <= 0:
            self._is_sold = True
            self._screen.tell(f"   all units are held or sold, {now.at_s:.1f} s after the crowd set out")
        if self._left is None and self._crowd.poll() is not None:
            self._leave(now)
        if self._left is None:
            if now.at_s > self._size.opens_in_s + PATIENCE_S + REST_S:
                raise DemoFault("the crowd does not go home")
            return False
        return now.at_s > self._left.at_s + self._rest_s or not (now.held or now.due)

    def _break(self, now: Count) -> None:
        at_ms = time.time_ns() // 1_000_000
        killed = self._decider.kill()
        self._stage.note_fault(KILL, at_ms, processes=killed, in_flight=now.backlog)
        self._killed = now
        self._screen.tell(
            f"[bold]3[/]  [red]kill -9[/] of whoever decides ({killed} processes), {now.backlog:,} requests in flight"
        )

    def _look_for_recovery(self, killed: Count, now: Count) -> None:
        """What was committed before the kill may be counted after it: the first look after it is where it stands."""
        if self._stands is None:
            self._stands = now
        elif now.decided > self._stands.decided:
            self._is_back = True
            self._screen.tell(f"   it came back by itself and decides on, {now.at_s - killed.at_s:.1f} s later")

    def _leave(self, now: Count) -> None:
        if self._crowd.returncode:
            raise DemoFault(f"the crowd failed:\n{self._stage.said('crowd')[-2000:]}")
        if self._killed is None:
            raise DemoFault("the sale was over before the fault: more buyers, please (--buyers)")
        self._left = now
        waits = f"unpaid orders end within {self._size.payment_ttl_s} s, {now.due:,} messages are due"
        self._screen.tell(f"   the crowd has gone home; {waits}")


# ── the books ────────────────────────────────────────────────────────────────────────────────────


def _count(console: Console, stage: Stage, lacking: str | None) -> Path | None:
    if lacking is not None:
        console.print(f"   no statistics: {lacking}", highlight=False)
        return None
    began = time.monotonic()
    counted = statistics.count(stage)
    said = f"in {time.monotonic() - began:.0f} s" if counted else f"[red]failed[/]: see {stage.folder / 'stats'}"
    console.print(f"   Spark has counted the topics anew: {said}", highlight=False)
    return counted


def _report(console: Console, stage: Stage, counted: Path | None, *, unsafe: bool) -> tuple[int, str]:
    page, written = stage.folder / "report.html", stage.folder / "report.json"
    patience = "10" if unsafe else "90"  # without guards it may never come to rest
    done = stage.run(
        "seckill.cli", "report", "--data", str(stage.folder), "--json", str(written), "--html", str(page),
        "--patience", patience, may_end_with=(0, 1, 2),
    )  # fmt: skip
    (stage.folder / "report.txt").write_text(done.stdout)
    if counted is not None:
        statistics.embed(page, counted)
    report: dict[str, Any] = json.loads(written.read_text())
    console.print(_table(report["invariants"]))
    for each in report["invariants"]:
        _explain(console, each)
    console.print(f"everything on one page: {page}", highlight=False, soft_wrap=True)
    code, verdict = done.returncode, str(report["verdict"])
    if unsafe:
        held = [
            each["name"] for each in report["invariants"] if each["name"] in MUST_FAIL and each["verdict"] != "FAIL"
        ]
        if held:
            console.print(f"[red]without guards these should have failed, and did not:[/] {', '.join(held)}")
            return FAILED, verdict
        console.print(f"as it must without guards: {', '.join(MUST_FAIL)} are broken, and the report says by whom")
    return code, verdict


def _table(invariants: list[dict[str, Any]]) -> Table:
    table = Table("", "invariant", "verdict", "looked at", "violations", box=None, pad_edge=False)
    for each in invariants:
        verdict = f"[{STYLES[each['verdict']]}]{each['verdict']}[/]"
        broken = f"{each['violations']:,}" if each["violations"] else ""
        table.add_row(each["name"], each["title"], verdict, f"{each['looked_at']:,}", broken)
    return table


def _explain(console: Console, each: dict[str, Any]) -> None:
    """Who broke it."""
    if each["verdict"] not in ("FAIL", "UNKNOWN"):
        return
    console.print(f"[{STYLES[each['verdict']]}]{each['name']}[/] {each['title']}", highlight=False)
    for reason in each["reasons"][:2]:
        console.print(f"   {reason}", highlight=False, markup=False)
    for example in each["examples"][:3]:
        subject = " ".join(f"{kind} {name}" for kind, name in example["subject"].items())
        console.print(f"   {example['text']}  {subject}", highlight=False, markup=False, soft_wrap=True)


def _until_interrupted(sleep: Callable[[float], None] = time.sleep) -> None:
    try:
        while True:
            sleep(1)
    except KeyboardInterrupt:
        pass
