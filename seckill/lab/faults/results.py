"""Values: the result of each case, its file, and the rule that judges a case by the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

from seckill.lab.faults.case import Case
from seckill.lab.kafka_target import KafkaTarget
from seckill.report.evidence import Evidence
from seckill.report.verdicts import Judgement, Verdict, overall_verdict

VERSION = 1
FILE_NAME = "faults.json"
NOT_RUN = Verdict.NOT_RUN.value


@dataclass(frozen=True, slots=True)
class CaseResult:
    """`behaved`: the fault happened, and the report gave the expected verdict."""

    number: str
    name: str
    title: str
    expected: str
    verdict: str
    behaved: bool
    why: str = ""
    broken: tuple[str, ...] = ()
    power: dict[str, int | str] = field(default_factory=dict)  # what the case found: proof and figures
    missing: tuple[str, ...] = ()  # proof that it did not find
    in_flight: int = -1
    attempts: int = 0
    again: int = 0
    recovery_ms: int = -1
    took_s: float = 0.0
    report: str = ""


def blank_result(case: Case, brokers: int, kafka: KafkaTarget | None = None) -> CaseResult:
    """Before the case has run; the final result if it cannot run with these brokers."""
    obstacle = case.find_obstacle(brokers, kafka)
    if obstacle:
        return CaseResult(case.number, case.name, case.title, "—", NOT_RUN, True, obstacle)
    return CaseResult(case.number, case.name, case.title, case.expected, "", False)


def load_results(folder: Path) -> list[CaseResult]:
    """The results of an earlier run in this folder."""
    path = folder / FILE_NAME
    if not path.exists():
        return []
    saved = json.loads(path.read_text())
    tuples = ("broken", "missing")
    return [CaseResult(**each | {name: tuple(each.get(name, ())) for name in tuples}) for each in saved["cases"]]


def save_results(folder: Path, results: Sequence[CaseResult], seed: int, scale: float) -> None:
    fresh = folder / (FILE_NAME + ".new")
    cases = [asdict(result) for result in results]
    fresh.write_text(json.dumps({"version": VERSION, "seed": seed, "scale": scale, "cases": cases}, indent=1) + "\n")
    fresh.replace(folder / FILE_NAME)


def group_cases(
    cases: Sequence[Case], size_max: int, brokers: int, kafka: KafkaTarget | None = None
) -> list[list[Case]]:
    """Consecutive cases that can share a stack and a report, at most `size_max` in each group."""
    groups: list[list[Case]] = []
    for (runs_alone, *_), several in groupby(
        cases,
        lambda case: (
            bool(case.find_obstacle(brokers, kafka)) or case.spoils_stack,
            case.crowd.payment_ttl_s,
            case.servers,
        ),
    ):
        size, listed = 1 if runs_alone else size_max, list(several)
        groups += [listed[first : first + size] for first in range(0, len(listed), size)]
    return groups


def judge_result(
    case: Case, result: CaseResult, evidence: Evidence, judged: Sequence[Judgement], report: str
) -> CaseResult:
    """Did the fault happen, and does the report say what it has to say?"""
    verdict = overall_verdict(list(judged))
    broken = tuple(each.invariant.name for each in judged if each.verdict not in (Verdict.PASS, Verdict.NOT_RUN))
    why = ""
    if result.missing:
        why = f"the fault did not happen; missing proof: {', '.join(result.missing)}"
    elif case.must_break and verdict is Verdict.PASS:
        why = "the report says PASS, but must not"
    elif not set(case.must_break) <= set(broken):
        why = f"{', '.join(sorted(set(case.must_break) - set(broken)))} should fail"
    elif not case.must_break and verdict is not Verdict.PASS:
        why = _first_violation(judged)
    return replace(
        result, verdict=verdict.value, behaved=not why, why=why, broken=broken, attempts=len(evidence.attempts),
        again=_redeliveries(evidence), report=report,
    )  # fmt: skip


def _first_violation(judged: Sequence[Judgement]) -> str:
    for each in judged:
        if each.violations:
            return f"{each.invariant.name}: {each.violations[0].text}"
    return next((f"{each.invariant.name}: {each.reasons[0]}" for each in judged if each.reasons), "")


def _redeliveries(evidence: Evidence) -> int:
    """Requests, events and messages that were delivered more than once on this stack."""
    events = [each.event_id for each in evidence.decision_events] + [each.event_id for each in evidence.order_events]
    messages = sum(line.what == "again" for line in evidence.sink_lines)
    return len(evidence.redeliveries) + len(events) - len(set(events)) + messages
