"""Codec: turns results into a page and into JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from loadtest.benchmarks.gateway.mixed import LOADS, MixedLoad, MixedRun
from loadtest.benchmarks.gateway.results import (
    GENERATOR_LAG_MS_MAX,
    STREAMS_WANTED,
    Results,
    calculated_mb,
    is_late,
    p99,
    stream_slowdowns,
)
from loadtest.benchmarks.gateway.servers import BARE, GATEWAY, WSGI
from loadtest.benchmarks.gateway.streams import RATE, StreamsResult
from loadtest.benchmarks.gateway.throughput import Run

VERSION = 2
BARE_GOAL, BARE_AIM = 0.65, 1.0
OTHER_GOAL, OTHER_AIM = 1.15, 1.4
CPU_US_GOAL, CPU_US_AIM = 120, 90
BARE_CPU_US = 106
"""Of the bare view on the machine on which these goals were set. It tells how much slower this machine is."""
SLOWDOWN_GOAL = 2.0
MEMORY_MB_GOAL = 512


def markdown(results: Results) -> str:
    lines = [
        "# The gateway's benchmark", "",
        "Written by `python -m loadtest.benchmarks.gateway`; run it again to compare. A figure is the median of all"
        " repetitions, with the lowest and the highest in brackets. Ratios are taken within a repetition.", "",
        *(f"* {name}: {text}" for name, text in results.about.items()), "",
    ]  # fmt: skip
    lines += _throughput(results) if results.runs else []
    lines += _mixed(results) if results.mixed else []
    lines += _streams(results.streams) if results.streams else []
    lines += _memory(results) if results.memory else []
    return "\n".join(lines)


def verdict(value: float, goal: float, *, at_most: bool = False) -> str:
    reached = value <= goal if at_most else value >= goal
    return f"{'≤' if at_most else '≥'} {goal:,g} {'✓' if reached else '✗'}"


def spread(values: Sequence[float], form: str = ".2f") -> str:
    return f"{median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    columns = ["---", *["--:"] * (len(heads) - 1)]
    return [f"| {' | '.join(row)} |" for row in (heads, columns, *rows)] + [""]


def _throughput(results: Results) -> list[str]:
    peers = [*([results.other] if results.other else []), BARE, WSGI]
    to_bare = results.ratios(BARE)
    goals = [("accepted per second, gateway ÷ bare view", to_bare, BARE_GOAL, BARE_AIM)]
    if results.other:
        ratios = results.ratios(results.other)
        goals.append((f"accepted per second, gateway ÷ {results.other}", ratios, OTHER_GOAL, OTHER_AIM))
    verdicts = [[name, spread(each), verdict(median(each), goal), f"{aim:g}"] for name, each, goal, aim in goals]
    cpu_us = [run.cpu_us for run in results.runs_of(GATEWAY)]
    verdicts.append(
        [
            "CPU of the gateway per accepted purchase, µs", spread(cpu_us, ".0f"),
            verdict(median(cpu_us), CPU_US_GOAL, at_most=True), f"{CPU_US_AIM}",
        ]
    )  # fmt: skip
    cpu_to_bare = results.ratios(BARE, lambda run: run.cpu_us)
    verdicts.append(
        [
            "the same ÷ that of the bare view", spread(cpu_to_bare),
            verdict(median(cpu_to_bare), round(CPU_US_GOAL / BARE_CPU_US, 2), at_most=True),
            f"{CPU_US_AIM / BARE_CPU_US:.2f}",
        ]
    )  # fmt: skip
    views = [GATEWAY, *peers]

    def row(name: str, value: Callable[[Run], float], form: str = ",.0f") -> list[str]:
        return [name, *(format(median(map(value, results.runs_of(view))), form) for view in views)]

    ours = results.runs_of(GATEWAY)
    return [
        "## Purchases per second", "",
        "All views are served by Granian with one worker and get the same requests, each connection sending the next"
        " request as soon as it has its answer. The gateway admits each request, sends it with acks=all to a topic that"
        " is synced, and answers 202 once the broker has acknowledged it. The bare view is Django with the same"
        " settings and middleware and a view that does nothing: called on the event loop, and by WSGI with one thread,"
        " which is the fastest way for a view that never waits and unusable for one that does.", "",
        *_table(("", "measured", "goal", "aim"), verdicts),
        f"The goals in µs were set on a machine on which the bare view took {BARE_CPU_US} µs. The last row compares"
        " them with this one.", "",
        f"What limited the gateway: {results.limited_by()}.", "",
        *_table(
            ("", *views),
            [
                row("accepted (answered) per second", lambda run: run.accepted_s),
                ["gateway ÷ this", "", *(spread(results.ratios(peer)) for peer in peers)],
                row("CPU of the server per accepted request, µs", lambda run: run.cpu_us),
                ["CPU, gateway ÷ this", "", *(spread(results.ratios(peer, lambda run: run.cpu_us)) for peer in peers)],
                row("connections", lambda run: run.connections),
                row("share that was accepted", lambda run: run.share_accepted, ".3f"),
                *(
                    row(f"{name}, ms", lambda run, name=name: run.latencies_ms[name], ".1f")  # type: ignore[misc]
                    for name in ours[0].latencies_ms
                ),
                *(
                    row(f"cores used: {name}", lambda run, name=name: run.cores[name], ".2f")  # type: ignore[misc]
                    for name in ours[0].cores
                ),
            ],
        ),
        "### What each step costs", "",
        "CPU of one core, with each step called on its own in one thread. The gateway's CPU per purchase is more than"
        " their sum, because it also includes HTTP and the wake-ups of its loop.", "",
        *_table(
            ("step", "µs"),
            [
                *([name, f"{cost:.1f}"] for name, cost in results.steps_us.items()),
                ["Django, Granian and the bare view", f"{median(run.cpu_us for run in results.runs_of(BARE)):.1f}"],
            ],
        ),
    ]  # fmt: skip


def _mixed(results: Results) -> list[str]:
    rows = []
    for load in LOADS:
        for view in (GATEWAY, *([results.other] if results.other else [])):
            rows.append(_mixed_row(load, view, results.mixed_of(view, load)))
    late = [run for run in results.mixed if is_late(run)]
    return [
        "## Purchases and status polls together", "",
        "Requests are due at fixed rates, however slow the answers are, and a latency counts from the moment when its"
        " request was due; the first second does not count. A poll reads the status of a random accepted purchase with"
        " its buyer's token. The goals are the p99 that a prototype of this design reached on two cores, plus a tenth.",
        "",
        *_table(
            (
                "purchases + polls per second", "served by", "reached", "purchases p50, ms", "p99, ms", "goal",
                "polls p50, ms", "p99, ms", "goal", "good answers",
            ),
            rows,
        ),
        f"The load generator was late in {len(late)} of {len(results.mixed)} runs, so their latencies are partly its"
        f" own: it sent more than 1 % of its requests over {GENERATOR_LAG_MS_MAX:g} ms after they were due and a"
        " connection was free, or it used a whole core."
        if late else "The load generator kept up in all runs.", "",
    ]  # fmt: skip


def _mixed_row(load: MixedLoad, view: str, runs: Sequence[MixedRun]) -> list[str]:
    purchases, polls = [run.purchases for run in runs], [run.polls for run in runs]
    reached = f"{median(each.reached_s for each in purchases):,.0f} + {median(each.reached_s for each in polls):,.0f}"
    row = [load.name, view, reached]
    for kind, goal in ((purchases, load.purchase_p99_max), (polls, load.poll_p99_max)):
        row.append(f"{median(each.latencies_ms['p50'] for each in kind):,.1f}")
        row.append(spread([each.latencies_ms["p99"] for each in kind], ",.0f"))
        row.append(verdict(p99(kind), goal, at_most=True) if view == GATEWAY else "")
    return [*row, f"{min(each.share_good for each in (*purchases, *polls)):.3f}"]


def _streams(result: StreamsResult) -> list[str]:
    slowdowns = stream_slowdowns(result)
    latencies = [[run.purchases.latencies_ms["p99"] for run in runs] for runs in (result.without, result.beside)]
    return [
        f"## {result.streams:,} open event streams", "",
        f"Each belongs to a buyer whose purchase waits in the queue. {RATE:,} purchases per second run without and"
        " beside them, in turns. Memory is that of the gateway's processes; the system's buffers of the connections"
        " are not included.", "",
        *_table(
            ("", "measured", "goal"),
            [
                ["p99 of purchases without streams, ms", spread(latencies[0], ".1f"), ""],
                ["p99 of purchases beside the streams, ms", spread(latencies[1], ".1f"), ""],
                ["ratio", spread(slowdowns), verdict(median(slowdowns), SLOWDOWN_GOAL, at_most=True)],
                ["events sent per second", f"{result.events_s:,.0f}", ""],
                ["memory before, MB", f"{result.before_mb:.0f}", ""],
                [f"memory with {result.streams:,} streams, MB", f"{result.after_mb:.0f}", ""],
                ["memory per stream, kB", f"{result.kb_per_stream:.1f}", ""],
                [f"memory with {STREAMS_WANTED:,} streams, MB (calculated)", f"{calculated_mb(result):,.0f}", ""],
            ],
        ),
    ]  # fmt: skip


def _memory(results: Results) -> list[str]:
    found = results.memory
    assert found is not None
    return [
        "## Memory while the broker does not answer", "",
        f"One gateway with {found.connections:,} open connections, half of them idle. The broker is stopped, then each"
        f" of the others sends a purchase: {found.waiting} wait for the broker, the rest is refused.", "",
        *_table(
            ("memory of the gateway's processes, MB", "measured", "goal"),
            [
                ["after its start", f"{found.started_mb:.0f}", ""],
                ["after purchases and polls", f"{found.warm_mb:.0f}", ""],
                ["with all connections open", f"{found.open_mb:.0f}", ""],
                [
                    f"with {found.waiting} purchases waiting", f"{found.stalled_mb:.0f}",
                    verdict(found.stalled_mb, MEMORY_MB_GOAL, at_most=True),
                ],
            ],
        ),
    ]  # fmt: skip


def as_json(results: Results) -> dict[str, Any]:
    found: dict[str, Any] = {"version": VERSION, **asdict(results)}
    if results.runs:
        found["ratios"] = {peer: results.ratios(peer) for peer in (results.other, BARE, WSGI) if peer}
        found["goals"] = {
            "bare view": BARE_GOAL, "other commit": OTHER_GOAL, "cpu_us": CPU_US_GOAL,
        }  # fmt: skip
    if results.streams is not None:
        found["streams"] |= {
            "kb_per_stream": results.streams.kb_per_stream,
            "slowdowns": stream_slowdowns(results.streams),
            f"calculated_mb_with_{STREAMS_WANTED}": calculated_mb(results.streams),
        }
    return found


def summary(results: Results) -> str:
    parts = []
    if results.runs:
        parts.append(f"gateway ÷ bare view = {spread(results.ratios(BARE))}")
        if results.other:
            parts.append(f"÷ {results.other} = {spread(results.ratios(results.other))}")
        parts.append(f"{results.cpu_us():.0f} µs per purchase")
    parts += [
        f"{load.name}: p99 {p99([run.purchases for run in runs]):.0f} and {p99([run.polls for run in runs]):.0f} ms"
        for load in LOADS
        if (runs := results.mixed_of(GATEWAY, load))
    ]
    if results.streams:
        parts.append(f"{results.streams.kb_per_stream:.1f} kB per stream")
    if results.memory:
        parts.append(f"{results.memory.stalled_mb:.0f} MB with a stalled broker")
    return " · ".join(parts)
