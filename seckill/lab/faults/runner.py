"""Shell: runs one case after the other: crowd, fault, recovery, proof; then it settles the sale and runs the report.

Cases share a stack until one spoils it: a case that must break an invariant, or one that did not behave. Several cases
may also share one report, because a report covers everything that has happened on its stack.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from seckill.lab.faults import settling
from seckill.lab.faults.case import Case, Steps
from seckill.lab.faults.crowd import CrowdProcess
from seckill.lab.faults.fault_run import ENDLESS_UNITS, FaultRun
from seckill.lab.faults.fault_stack import FaultStack
from seckill.lab.faults.results import NOT_RUN, CaseResult, blank_result, judge_result, load_results, save_results
from seckill.lab.kafka_target import KafkaTarget
from seckill.lab.lab_stack import ExperimentFailed
from seckill.report import manifest, terminal
from seckill.report.evidence import Evidence
from seckill.report.html.page import render_report
from seckill.report.invariants.registry import judge_invariants
from seckill.report.sources.collect import Addresses, collect
from seckill.report.verdicts import Judgement

WARM_UP_DECISIONS = 15
"""After this many decisions the sale is well under way, so the fault can begin."""
REPORT_SECONDS_MAX = 90.0
CROWD_SECONDS_MIN = 3.0
"""A smaller crowd arrives in less time, but not faster than this."""

Announce = Callable[[str], None]


class Runner:
    def __init__(
        self, folder: Path, first_port: int, seed: int, scale: float, announce: Announce, *, brokers: int = 1,
        kafka: KafkaTarget | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder.absolute()
        self.brokers, self.kafka = brokers, kafka
        self._first_port, self._seed, self._scale = first_port, seed, scale
        self._announce = announce
        self._stack: FaultStack | None = None
        self._crowd: CrowdProcess | None = None
        self._generation = 0

    def load_results(self) -> list[CaseResult]:
        return load_results(self.folder)

    def save_results(self, results: Sequence[CaseResult]) -> None:
        save_results(self.folder, results, self._seed, self._scale)

    def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """Run the cases in turn, then one report on all. An exception becomes the result of every case in the group,
        because they share the report."""
        began, results = time.monotonic(), [blank_result(case, self.brokers, self.kafka) for case in cases]
        if results[0].verdict == NOT_RUN:
            return results
        current = ""
        try:
            for index, case in enumerate(cases):
                current = case.name
                results[index] = self._run_case(case, results[index])
            current = "the report"
            results = self._judge(cases, results)
        except Exception as fault:  # any client of a broken server may raise its own; the next group goes on
            why = f"{f'at {current}: ' if len(cases) > 1 else ''}{_one_line(fault)}"
            results = [replace(result, verdict="STUCK", why=why) for result in results]
        took_s = round(time.monotonic() - began, 1)
        results[-1] = replace(results[-1], took_s=round(took_s - sum(each.took_s for each in results[:-1]), 1))
        have_behaved = all(result.behaved for result in results)
        if cases[-1].spoils_stack or not have_behaved:
            self.stop_stack(keep_data=not have_behaved)
        return results

    def stop_stack(self, keep_data: bool = False) -> None:
        """Stop the stack; delete its data unless a case did not behave."""
        if self._crowd is not None:
            self._crowd.kill()
            self._crowd = None
        if self._stack is None:
            return
        self._stack.stop()
        if not keep_data:
            shutil.rmtree(self._stack.folder, ignore_errors=True)
        self._stack = None

    def _start_stack(self, case: Case) -> FaultStack:
        """The running stack if it suits the case, else a new one."""
        wanted = (case.crowd.payment_ttl_s, case.servers)
        if self._stack is not None and self._stack.is_running and self._stack.kind == wanted:
            return self._stack
        self.stop_stack(keep_data=self._stack is not None and self._stack.has_ended)
        while (folder := self.folder / f"stack-{self._generation}").exists():
            self._generation += 1
        self._announce(f"starting a stack in {folder}")
        self._stack = FaultStack(
            folder, self._first_port, *wanted, brokers=1 if self.kafka else self.brokers, kafka=self.kafka
        )
        self._stack.start()
        return self._stack

    def _run_case(self, case: Case, result: CaseResult) -> CaseResult:
        """Everything but the verdict."""
        began = time.monotonic()
        run = self._prepare(case, self._start_stack(case))
        steps = case.steps(run)
        if case.after_sale:
            run.crowd.wait()
            settling.await_settled(run.stack)
        else:
            warm = min(WARM_UP_DECISIONS, run.plan.buyers // 4)
            run.stack.wait_until(lambda: run.stack.database.decided(run.sale) >= warm, "the sale to be under way")
        result = self._inject(run, steps, result)
        self._announce(f"{case.name}: waiting for the crowd to finish")
        run.crowd.wait()
        if next(steps, "end") != "end":
            raise ExperimentFailed(f"the case {case.name} has more than one yield")
        return replace(
            result, power=dict(run.findings), missing=tuple(run.missing), took_s=round(time.monotonic() - began, 1)
        )

    def _prepare(self, case: Case, stack: FaultStack) -> FaultRun:
        """Declare the fault, create the sales and start the crowd."""
        stack.evidence_folder.declare(case.name)
        plan = case.crowd
        over_s = max(min(plan.over_s, CROWD_SECONDS_MIN), plan.over_s * self._scale)
        units, buyers = (max(1, round(count * self._scale)) for count in (plan.units, plan.buyers))
        plan = replace(plan, units=units, buyers=buyers, over_s=over_s)
        sale = stack.create_sale(plan.units)
        stack.endless_sale = stack.endless_sale or stack.create_sale(ENDLESS_UNITS)
        log = stack.evidence / f"{case.name}.jsonl"
        self._crowd = CrowdProcess(stack.gateway, sale, plan, log)
        stack.wait_until(log.exists, "the crowd to start")
        return FaultRun(
            stack, case, plan, sale, stack.endless_sale, self._crowd, self._seed, self._scale, self._announce
        )

    def _inject(self, run: FaultRun, steps: Steps, result: CaseResult) -> CaseResult:
        """Run the case up to its `yield`, then wait until the system has recovered."""
        case, stack = run.case, run.stack
        in_flight, restarts = settling.in_flight(stack), stack.restarts()
        began, began_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._announce(f"{case.name}: {case.title}; {max(0, in_flight):,} requests in flight")
        needs_no_buyers = case.after_sale or case.crowd.outlasts_fault
        with nullcontext() if needs_no_buyers else run.background_buyers(f"{case.name}.background"):
            next(steps)
        stack.evidence_folder.note_fault(case.name, began_ms, in_flight=in_flight)
        self._announce(f"{case.name}: done, recovering")
        settling.await_recovery(stack)
        if not case.after_sale:
            self._probe(run)
        recovery_ms = int((time.monotonic() - began) * 1000)
        run.record("processes started again", stack.restarts() - restarts)
        return replace(result, in_flight=in_flight, recovery_ms=recovery_ms)

    def _probe(self, run: FaultRun) -> None:
        """One more buyer must be accepted, or the system looks healthy and does not sell."""
        with run.buyer_log(f"{run.case.name}.probe", run.side_sale) as log:
            response = run.buyer(f"probe-{run.case.name}", log).buy_persistently()
        if response.status != 202:
            why = response.body.get("type", "no response")
            raise ExperimentFailed(
                f"every process is up, but a buyer was refused for a minute: {response.status} {why}"
            )

    def _judge(self, cases: Sequence[Case], results: Sequence[CaseResult]) -> list[CaseResult]:
        """Wait until the sale has settled, except after damage, which no waiting repairs; then run the report."""
        assert self._stack is not None
        if not cases[-1].spoils_stack:
            self._announce("report: waiting until the sale has settled")
            settling.await_settled(self._stack)
        name = cases[-1].name
        evidence, judged = run_report(self._stack, self.folder, name, self._announce)
        page = f"reports/{name}.html"
        return [judge_result(case, result, evidence, judged, page) for case, result in zip(cases, results, strict=True)]


def run_report(stack: FaultStack, folder: Path, name: str, announce: Announce) -> tuple[Evidence, list[Judgement]]:
    """The report on everything that has happened on this stack; saved as reports/NAME.html and .json in the folder."""
    addresses = Addresses(
        stack.environment["KAFKA_BOOTSTRAP_SERVERS"],
        stack.environment["SECKILL_DATABASE_URL"],
        stack.environment["SECKILL_GATE_REDIS_URL"],
        stack.folder / "sandbox",
    )
    evidence = collect(
        addresses, manifest.read_manifest(stack.evidence), REPORT_SECONDS_MAX, lambda text: announce(f"report: {text}")
    )
    judged = judge_invariants(evidence)
    pages = folder / "reports"
    pages.mkdir(exist_ok=True)
    (pages / f"{name}.json").write_text(json.dumps(terminal.report_as_json(evidence, judged), default=str))
    (pages / f"{name}.html").write_text(render_report(evidence, judged), encoding="utf-8")
    return evidence, judged


def _one_line(fault: Exception) -> str:
    return f"{type(fault).__name__}: {' '.join(str(fault).split())}"[:300]
