"""Shell: one case after the other: crowd, fault, recovery, drain, report. What came of each is kept at once.

Cases share a stack as long as nothing is spoilt: a case that must fail, and one that did not behave, end it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from seckill.consistency import manifest, show
from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import judge
from seckill.consistency.page import document
from seckill.consistency.sources.collect import Addresses, collect
from seckill.consistency.verdicts import Judged, Verdict, overall
from seckill.faults import progress
from seckill.faults.case import Acts, Case
from seckill.faults.crowd import Buyer, Crowd
from seckill.faults.world import Stuck, World
from seckill.stack.process import bare

VERSION = 1
RESULTS = "faults.json"
ENOUGH = 100_000
"""Units that nobody can buy up."""
WARM = 15
"""So many decisions, and the sale is under way."""
REPORT_S = 90.0
SHORTEST_S = 5.0
"""No crowd arrives faster than that, however small it is."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a case. `behaved`: it happened, and the report said what it had to."""

    number: str
    name: str
    title: str
    expected: str
    verdict: str
    behaved: bool
    why: str = ""
    broken: tuple[str, ...] = ()
    power: dict[str, int | str] = field(default_factory=dict)
    in_flight: int = -1
    attempts: int = 0
    again: int = 0
    recovery_ms: int = -1
    took_s: float = 0.0
    report: str = ""


class Runner:
    def __init__(self, folder: Path, first_port: int, seed: int, scale: float, tell: Tell) -> None:
        self.folder = folder.absolute()
        self._first_port, self._seed, self._scale = first_port, seed, scale
        self._tell = tell
        self._world: World | None = None
        self._generation = 0

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def kept(self) -> list[Row]:
        """What an earlier run in this folder has found."""
        path = self.folder / RESULTS
        if not path.exists():
            return []
        said = json.loads(path.read_text())
        return [Row(**{**row, "broken": tuple(row["broken"])}) for row in said["cases"]]

    def keep(self, rows: Sequence[Row]) -> None:
        fresh = self.folder / (RESULTS + ".new")
        said = {"version": VERSION, "seed": self._seed, "scale": self._scale, "cases": [asdict(row) for row in rows]}
        fresh.write_text(json.dumps(said, indent=1) + "\n")
        fresh.replace(self.folder / RESULTS)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def run(self, case: Case) -> Row:
        """Never raises for what a case does: what went wrong is what came of it."""
        if case.act is None:
            return Row(case.number, case.name, case.title, "—", "NOT RUN", True, case.needs)
        began = time.monotonic()
        row = Row(case.number, case.name, case.title, case.expected, "", False)
        try:
            row = self._run(case, row)
        except Exception as fault:  # of whatever client of what was broken: it is the result, and the next case goes on
            row = replace(row, verdict="STUCK", why=_in_a_line(fault))
        row = replace(row, took_s=round(time.monotonic() - began, 1))
        if case.spoils or not row.behaved:
            self.leave(keep=not row.behaved)
        return row

    def leave(self, keep: bool = False) -> None:
        """Stop the stack, and forget its data if all went well."""
        if self._world is None:
            return
        if self._world.crowd is not None:
            self._world.crowd.end()
        self._world.stop()
        if not keep:
            shutil.rmtree(self._world.folder, ignore_errors=True)
        self._world = None

    def _stack(self) -> World:
        if self._world is not None and self._world.is_running:
            return self._world
        while (folder := self.folder / f"stack-{self._generation}").exists():
            self._generation += 1
        self._tell(f"starting a stack in {folder}")
        self._world = World(folder, self._first_port, self._seed, self._scale)
        self._world.start()
        return self._world

    def _run(self, case: Case, row: Row) -> Row:
        world = self._stack()
        world.numbers, world.missing = {}, []
        world.declare(case.name)
        over_s = max(min(case.rush.over_s, SHORTEST_S), case.rush.over_s * self._scale)
        rush = replace(
            case.rush, units=world.scaled(case.rush.units), buyers=world.scaled(case.rush.buyers), over_s=over_s
        )
        world.sale = world.create_sale(rush.units)
        world.side_sale = world.side_sale or world.create_sale(ENOUGH)
        log = world.evidence / f"{case.name}.jsonl"
        world.crowd = Crowd(world.gateway, world.sale, rush, log, bare())
        world.wait_until(log.exists, "the crowd to come")
        assert case.act is not None
        acts = case.act(world)
        if case.late:
            self._drain(world, case)
            row = self._inject(world, case, acts, row)
        else:
            warm = min(WARM, rush.buyers // 4)
            world.wait_until(lambda: world.decided() >= warm, "the sale to be under way")
            row = self._inject(world, case, acts, row)
            self._drain(world, case)
        if next(acts, "end") != "end":
            raise Stuck("a case has one fault")
        return self._judge(world, case, row)

    def _inject(self, world: World, case: Case, acts: Acts, row: Row) -> Row:
        in_flight, restarts = progress.in_flight(world), self._lives(world)
        began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._tell(f"{case.name}: {case.title}; {max(0, in_flight):,} requests in flight")
        with world.stragglers(f"{case.name}.stragglers") if not case.late else nullcontext():
            next(acts)
        world.note_fault(case.name, began_ms, time.time_ns() // 1_000_000, in_flight=in_flight)
        self._tell(f"{case.name}: done, recovering")
        progress.await_recovery(world)
        if not case.late:
            self._probe(world, case)
        recovery_ms = int((time.monotonic() - began) * 1000)
        world.tells("processes started again", self._lives(world) - restarts)
        return replace(row, in_flight=in_flight, recovery_ms=recovery_ms)

    def _probe(self, world: World, case: Case) -> None:
        """One more buyer has to be accepted: else everything is up and nobody can buy."""
        with world.book(f"{case.name}.probe", world.side_sale) as book:
            told = Buyer(world.gateway, f"probe-{case.name}", book.sale, book).insist()
        if told.status != 202:
            why = told.body.get("type", "no answer")
            raise Stuck(f"everything is up, and a buyer was turned away for a minute: {told.status} {why}")

    def _lives(self, world: World) -> int:
        return sum(int(each["restarts"]) for each in world.rows().values())

    def _drain(self, world: World, case: Case) -> None:
        assert world.crowd is not None
        self._tell(f"{case.name}: the crowd goes home")
        world.crowd.leave()
        progress.await_rest(world)

    def _judge(self, world: World, case: Case, row: Row) -> Row:
        where = Addresses(
            world.environment["KAFKA_BOOTSTRAP_SERVERS"],
            world.environment["SECKILL_DATABASE_URL"],
            world.environment["SECKILL_GATE_REDIS_URL"],
            world.folder / "sandbox",
        )
        evidence = collect(where, manifest.read(world.evidence), REPORT_S, lambda text: self._tell(f"report: {text}"))
        judged = judge(evidence)
        return judged_row(
            case, row, world.numbers, world.missing, evidence, judged, self._pages(case, evidence, judged)
        )

    def _pages(self, case: Case, evidence: Evidence, judged: list[Judged]) -> str:
        folder = self.folder / "reports"
        folder.mkdir(exist_ok=True)
        (folder / f"{case.name}.json").write_text(json.dumps(show.as_json(evidence, judged), default=str))
        (folder / f"{case.name}.html").write_text(document.written(evidence, judged), encoding="utf-8")
        return f"reports/{case.name}.html"


def judged_row(
    case: Case, row: Row, numbers: dict[str, Any], missing: Sequence[str], evidence: Evidence, judged: Sequence[Judged],
    report: str,
) -> Row:  # fmt: skip
    """Did it happen, and does the report say what it has to?"""
    verdict = overall(list(judged))
    broken = tuple(each.invariant.name for each in judged if each.verdict not in (Verdict.PASS, Verdict.NOT_RUN))
    why = ""
    if missing:
        why = f"it did not happen: none of {', '.join(missing)}"
    elif case.breaks and verdict is Verdict.PASS:
        why = "the report says PASS, and must not"
    elif not set(case.breaks) <= set(broken):
        why = f"{', '.join(sorted(set(case.breaks) - set(broken)))} should not hold"
    elif not case.breaks and verdict is not Verdict.PASS:
        why = _why(judged)
    return replace(
        row, verdict=verdict.value, behaved=not why, why=why, broken=broken, power=dict(numbers),
        attempts=len(evidence.attempts), again=_again(evidence), report=report,
    )  # fmt: skip


def _why(judged: Sequence[Judged]) -> str:
    for each in judged:
        if each.violations:
            return f"{each.invariant.name}: {each.violations[0].text}"
    return next((f"{each.invariant.name}: {each.reasons[0]}" for each in judged if each.reasons), "")


def _in_a_line(fault: Exception) -> str:
    return f"{type(fault).__name__}: {' '.join(str(fault).split())}"[:300]


def _again(evidence: Evidence) -> int:
    """What was delivered more than once, on the whole stack so far."""
    said = [said.event_id for said in evidence.decisions_said] + [said.event_id for said in evidence.orders_said]
    told = sum(line.what == "again" for line in evidence.sink)
    return len(evidence.redelivered) + len(said) - len(set(said)) + told
