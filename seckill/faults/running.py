"""Shell: one case after the other: crowd, fault, recovery, proof; then rest, and the report on it. It is kept at once.

Cases share a stack as long as nothing is spoilt: a case that must fail, and one that did not behave, end it. Several
may share the rest and the report, too: the books of a stack are about all that has happened there.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

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
SHORTEST_S = 3.0
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
    missing: tuple[str, ...] = ()  # of what would have proved it
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
        tuples = ("broken", "missing")
        return [Row(**row | {name: tuple(row.get(name, ())) for name in tuples}) for row in said["cases"]]

    def keep(self, rows: Sequence[Row]) -> None:
        fresh = self.folder / (RESULTS + ".new")
        said = {"version": VERSION, "seed": self._seed, "scale": self._scale, "cases": [asdict(row) for row in rows]}
        fresh.write_text(json.dumps(said, indent=1) + "\n")
        fresh.replace(self.folder / RESULTS)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def run(self, cases: Sequence[Case]) -> list[Row]:
        """One after the other, and one report on all. Never raises for what a case does: that is what came of it, and
        of whoever shares its report."""
        began, rows = time.monotonic(), [_blank(case) for case in cases]
        if cases[0].act is None:
            return [replace(row, expected="—", verdict="NOT RUN", behaved=True, why=cases[0].needs) for row in rows]
        doing = ""
        try:
            for at, case in enumerate(cases):
                doing = case.name
                rows[at] = self._happen(case, rows[at])
            doing = "the report"
            rows = self._judge(cases, rows)
        except Exception as fault:  # of whatever client of what was broken: it is the result, and the next case goes on
            why = f"{f'at {doing}: ' if len(cases) > 1 else ''}{_in_a_line(fault)}"
            rows = [replace(row, verdict="STUCK", why=why) for row in rows]
        took_s = round(time.monotonic() - began, 1)
        rows[-1] = replace(rows[-1], took_s=round(took_s - sum(row.took_s for row in rows[:-1]), 1))
        if cases[-1].spoils or not all(row.behaved for row in rows):
            self.leave(keep=not all(row.behaved for row in rows))
        return rows

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

    def _stack(self, time_to_pay_s: int) -> World:
        if self._world is not None and self._world.is_running and self._world.time_to_pay_s == time_to_pay_s:
            return self._world
        self.leave(keep=self._world is not None and self._world.has_ended)
        while (folder := self.folder / f"stack-{self._generation}").exists():
            self._generation += 1
        self._tell(f"starting a stack in {folder}")
        self._world = World(folder, self._first_port, self._seed, self._scale, time_to_pay_s, self._tell)
        self._world.start()
        return self._world

    def _happen(self, case: Case, row: Row) -> Row:
        """All of it but the verdict."""
        began, world = time.monotonic(), self._stack(case.rush.time_to_pay_s)
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
            world.crowd.leave()
            progress.await_rest(world)
        else:
            warm = min(WARM, rush.buyers // 4)
            world.wait_until(lambda: world.decided() >= warm, "the sale to be under way")
        row = self._inject(world, case, acts, row)
        self._tell(f"{case.name}: the crowd goes home")
        world.crowd.leave()
        if next(acts, "end") != "end":
            raise Stuck("a case has one fault")
        power, missing = dict(world.numbers), tuple(world.missing)
        return replace(row, power=power, missing=missing, took_s=round(time.monotonic() - began, 1))

    def _inject(self, world: World, case: Case, acts: Acts, row: Row) -> Row:
        in_flight, restarts = progress.in_flight(world), self._lives(world)
        began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._tell(f"{case.name}: {case.title}; {max(0, in_flight):,} requests in flight")
        alone = case.late or case.rush.stays
        with nullcontext() if alone else world.stragglers(f"{case.name}.stragglers"):
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

    def _judge(self, cases: Sequence[Case], rows: Sequence[Row]) -> list[Row]:
        """Forged books need no rest: what is wrong with them stays wrong."""
        world = self._world
        assert world is not None
        if not cases[-1].spoils:
            self._tell("report: waiting until nothing happens any more")
            progress.await_rest(world)
        name = cases[-1].name
        evidence, judged = reported(world, self.folder, name, self._tell)
        page = f"reports/{name}.html"
        return [judged_row(case, row, evidence, judged, page) for case, row in zip(cases, rows, strict=True)]


def reported(world: World, folder: Path, name: str, tell: Tell) -> tuple[Evidence, list[Judged]]:
    """The report on all that has happened on this stack, kept as reports/NAME.html and .json in the folder."""
    where = Addresses(
        world.environment["KAFKA_BOOTSTRAP_SERVERS"],
        world.environment["SECKILL_DATABASE_URL"],
        world.environment["SECKILL_GATE_REDIS_URL"],
        world.folder / "sandbox",
    )
    evidence = collect(where, manifest.read(world.evidence), REPORT_S, lambda text: tell(f"report: {text}"))
    judged = judge(evidence)
    pages = folder / "reports"
    pages.mkdir(exist_ok=True)
    (pages / f"{name}.json").write_text(json.dumps(show.as_json(evidence, judged), default=str))
    (pages / f"{name}.html").write_text(document.written(evidence, judged), encoding="utf-8")
    return evidence, judged


def _blank(case: Case) -> Row:
    return Row(case.number, case.name, case.title, case.expected, "", False)


def sharing(cases: Sequence[Case], most: int) -> list[list[Case]]:
    """As they come, up to so many at a time that can share a report."""
    groups: list[list[Case]] = []
    for together, several in groupby(cases, lambda case: (case.act is None or case.spoils, case.rush.time_to_pay_s)):
        size, listed = 1 if together[0] else most, list(several)
        groups += [listed[first : first + size] for first in range(0, len(listed), size)]
    return groups


def judged_row(case: Case, row: Row, evidence: Evidence, judged: Sequence[Judged], report: str) -> Row:
    """Did it happen, and does the report say what it has to?"""
    verdict = overall(list(judged))
    broken = tuple(each.invariant.name for each in judged if each.verdict not in (Verdict.PASS, Verdict.NOT_RUN))
    why = ""
    if row.missing:
        why = f"it did not happen: none of {', '.join(row.missing)}"
    elif case.breaks and verdict is Verdict.PASS:
        why = "the report says PASS, and must not"
    elif not set(case.breaks) <= set(broken):
        why = f"{', '.join(sorted(set(case.breaks) - set(broken)))} should not hold"
    elif not case.breaks and verdict is not Verdict.PASS:
        why = _why(judged)
    return replace(
        row, verdict=verdict.value, behaved=not why, why=why, broken=broken, attempts=len(evidence.attempts),
        again=_again(evidence), report=report,
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
