"""Codec: runs → ratios, repetition by repetition, and a page. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from loadtest.gateway.measuring import BARE, GATEWAY, WSGI, Run

GOAL = 0.6
NEARLY_ALL = 0.85


def pairs(runs: Sequence[Run], peer: str = BARE) -> list[tuple[Run, Run]]:
    ours, theirs = ([run for run in runs if run.view == view] for view in (GATEWAY, peer))
    return list(zip(ours, theirs, strict=True))


def ratios(runs: Sequence[Run], peer: str = BARE) -> list[float]:
    """Accepted by ours to answered by theirs, within each repetition."""
    return [ours.accepted_s / theirs.accepted_s for ours, theirs in pairs(runs, peer)]


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
        "Written by `python -m loadtest.gateway`; run it again to compare. Both are served by Granian and"
        " `seckill.serving` (one worker, the same settings and middleware) and get the same requests. The gateway's are"
        " admitted, sent with acks=all to a topic that is synced, and answered 202 once the broker has acknowledged"
        " them. The bare view is served by WSGI, too, with one thread: the quickest way for a view that never waits,"
        " and none for one that does.", "",
        *(f"* {name}: {text}" for name, text in about.items()),
        f"* what kept the gateway from more: {limited_by(runs, cores)}", "",
        "| | gateway | bare view | ratio | goal | bare view, WSGI | ratio |", "|---|--:|--:|--:|---|--:|--:|",
    ]  # fmt: skip
    ours, theirs, wsgi = ([run for run in runs if run.view == view] for view in (GATEWAY, BARE, WSGI))
    views = {GATEWAY: ours, BARE: theirs, WSGI: wsgi}
    verdict = "✓" if median(ratios(runs)) >= GOAL else "✗"

    def row(name: str, value: Callable[[Run], float], form: str = ",.0f", goal: str = "", **ratio: str) -> str:
        middle = {view: format(median(map(value, each)), form) for view, each in views.items()}
        return (
            f"| {name} | {middle[GATEWAY]} | {middle[BARE]} | {ratio.get('bare', '')} | {goal} | {middle[WSGI]} |"
            f" {ratio.get('wsgi', '')} |"
        )

    lines += [
        row(
            "accepted (answered) a second", lambda run: run.accepted_s, goal=f"≥ {GOAL} {verdict}",
            bare=spread(ratios(runs)), wsgi=spread(ratios(runs, WSGI)),
        ),
        row("connections", lambda run: run.connections),
        row("CPU of the server for a request, µs", lambda run: run.cpu_us, bare=spread(cpu_ratios(runs))),
        row("share that was accepted", lambda run: run.share_accepted, ".3f"),
        *(
            row(f"{name}, ms", lambda run, name=name: run.latencies_ms[name], ".1f")  # type: ignore[misc]
            for name in ours[0].latencies_ms
        ),
        *(
            row(
                f"cores used: {'the server' if name == GATEWAY else name}",
                lambda run, name=name: run.cores[run.view if name == GATEWAY else name], ".2f",  # type: ignore[misc]
            )
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
        "ratios_wsgi": ratios(runs, WSGI),
        "cpu_ratios": cpu_ratios(runs),
        "runs": [{name: getattr(run, name) for name in Run.__slots__} for run in runs],
        "steps_us": dict(steps),
    }


def _middle(values: Any) -> str:
    return f"{median(values):,.0f}"
