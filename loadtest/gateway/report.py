"""Codec: runs → ratios, repetition by repetition, and a page. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from loadtest.gateway.measuring import BARE, GATEWAY, Run

GOAL = 0.6
NEARLY_ALL = 0.85


def pairs(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    ours, theirs = ([run for run in runs if run.view == view] for view in (GATEWAY, BARE))
    return list(zip(ours, theirs, strict=True))


def ratios(runs: Sequence[Run]) -> list[float]:
    """Accepted by ours to answered by theirs, within each repetition."""
    return [ours.accepted_s / theirs.accepted_s for ours, theirs in pairs(runs)]


def cpu_ratios(runs: Sequence[Run]) -> list[float]:
    """What a server alone would do: their CPU for a request to ours."""
    return [theirs.cpu_us / ours.cpu_us for ours, theirs in pairs(runs)]


def limited_by(runs: Sequence[Run], cores: int) -> str:
    """Who was busy while the gateway was measured."""
    ours = [run for run in runs if run.view == GATEWAY]
    busy = {name: median(run.cores[name] for run in ours) for name in ours[0].cores}
    at_its_end = [name for name, used in busy.items() if used >= NEARLY_ALL]
    if at_its_end:
        return ", ".join(at_its_end)
    return "the machine: all its cores are busy" if sum(busy.values()) >= NEARLY_ALL * cores else "nobody: waiting"


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def markdown(runs: Sequence[Run], steps: Mapping[str, float], about: Mapping[str, str], cores: int) -> str:
    lines = [
        "# The gateway beside a bare Django view", "",
        "Written by `python -m loadtest.gateway`; run it again to compare. Both are served by Granian (WSGI, one"
        " worker, the same threads, settings and middleware) and get the same requests. The gateway's are admitted,"
        " sent with acks=all to a topic that is synced, and answered 202 once the broker has acknowledged them.", "",
        *(f"* {name}: {text}" for name, text in about.items()),
        f"* what kept the gateway from more: {limited_by(runs, cores)}", "",
        "| | gateway | bare view | ratio | goal |", "|---|--:|--:|--:|---|",
    ]  # fmt: skip
    ours, theirs = ([run for run in runs if run.view == view] for view in (GATEWAY, BARE))
    verdict = "✓" if median(ratios(runs)) >= GOAL else "✗"
    lines += [
        f"| accepted (answered) a second | {_middle(run.accepted_s for run in ours)} |"
        f" {_middle(run.accepted_s for run in theirs)} | {spread(ratios(runs))} | ≥ {GOAL} {verdict} |",
        f"| connections | {_middle(run.connections for run in ours)} |"
        f" {_middle(run.connections for run in theirs)} | | |",
        f"| CPU of the server for a request, µs | {_middle(run.cpu_us for run in ours)} |"
        f" {_middle(run.cpu_us for run in theirs)} | {spread(cpu_ratios(runs))} | |",
        f"| share that was accepted | {min(run.share_accepted for run in ours):.3f} |"
        f" {min(run.share_accepted for run in theirs):.3f} | | |",
        *(
            f"| {name}, ms | {median(run.latencies_ms[name] for run in ours):.1f} |"
            f" {median(run.latencies_ms[name] for run in theirs):.1f} | | |"
            for name in ours[0].latencies_ms
        ),
        *(
            f"| cores used: {'the server' if name == GATEWAY else name} |"
            f" {median(run.cores[name] for run in ours):.2f} |"
            f" {median(run.cores[BARE if name == GATEWAY else name] for run in theirs):.2f} | | |"
            for name in ours[0].cores
        ),
        "",
        "## What each step costs", "",
        "CPU of one core, each step called by itself on one thread. The gateway's line above, its clerk's included, is"
        " more than their sum: the rest is threads that are woken, what passes the hatch, and the producer.", "",
        "| step | µs |", "|---|--:|",
        *(f"| {name} | {cost:.1f} |" for name, cost in steps.items()),
        f"| Django, Granian and the bare view | {median(run.cpu_us for run in theirs):.1f} |", "",
    ]  # fmt: skip
    return "\n".join(lines)


def as_json(runs: Sequence[Run], steps: Mapping[str, float], about: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": 1,
        "about": dict(about),
        "goal": GOAL,
        "ratios": ratios(runs),
        "cpu_ratios": cpu_ratios(runs),
        "runs": [{name: getattr(run, name) for name in Run.__slots__} for run in runs],
        "steps_us": dict(steps),
    }


def _middle(values: Any) -> str:
    return f"{median(values):,.0f}"
