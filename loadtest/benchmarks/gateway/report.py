"""Codec: turns runs into ratios per repetition, and into a page. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from loadtest.benchmarks.gateway.measurement import BARE, GATEWAY, WSGI, Run

GOAL = 0.6
NEARLY_ALL = 0.85


def pairs(runs: Sequence[Run], peer: str = BARE) -> list[tuple[Run, Run]]:
    ours, theirs = ([run for run in runs if run.view == view] for view in (GATEWAY, peer))
    return list(zip(ours, theirs, strict=True))


def ratios(runs: Sequence[Run], peer: str = BARE) -> list[float]:
    """Accepted by the gateway divided by answered by the other view, within each repetition."""
    return [ours.accepted_s / theirs.accepted_s for ours, theirs in pairs(runs, peer)]


def cpu_ratios(runs: Sequence[Run]) -> list[float]:
    """The other view's CPU per request divided by ours: the ratio if the server had the machine to itself."""
    return [theirs.cpu_us / ours.cpu_us for ours, theirs in pairs(runs)]


def limited_by(runs: Sequence[Run], cores: int) -> str:
    """Which processes were busy while the gateway was measured."""
    ours = [run for run in runs if run.view == GATEWAY]
    busy = {name: median(run.cores[name] for run in ours) for name in ours[0].cores}
    at_its_end = [name for name, used in busy.items() if used >= NEARLY_ALL]
    if at_its_end:
        return ", ".join(at_its_end)
    return (
        "the machine: all its cores are busy"
        if sum(busy.values()) >= NEARLY_ALL * cores
        else "nothing was busy: requests were waiting"
    )


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def markdown(runs: Sequence[Run], steps: Mapping[str, float], about: Mapping[str, str], cores: int) -> str:
    lines = [
        "# The gateway beside a bare Django view", "",
        "Written by `python -m loadtest.benchmarks.gateway`; run it again to compare. Both are served by Granian and"
        " `gateway.serving` (one worker, the same settings and middleware) and get the same requests. The gateway"
        " admits each request, sends it with acks=all to a topic that is synced, and answers 202 once the broker has"
        " acknowledged it. The bare view is also served by WSGI with one thread, which is the fastest way for a view"
        " that never waits and unusable for one that does.", "",
        *(f"* {name}: {text}" for name, text in about.items()),
        f"* what limited the gateway: {limited_by(runs, cores)}", "",
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
            "accepted (answered) per second", lambda run: run.accepted_s, goal=f"≥ {GOAL} {verdict}",
            bare=spread(ratios(runs)), wsgi=spread(ratios(runs, WSGI)),
        ),
        row("connections", lambda run: run.connections),
        row("CPU of the server per request, µs", lambda run: run.cpu_us, bare=spread(cpu_ratios(runs))),
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
        "CPU of one core, with each step called on its own in one thread. The gateway's CPU per request above is more"
        " than their sum, because it also includes waking threads, hand-over between processes and the producer.",
        "",
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
