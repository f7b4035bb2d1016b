"""Shell: `python -m loadtest.benchmarks.gateway`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.benchmarks.gateway import report
from loadtest.benchmarks.gateway.measurement import CONNECTIONS_MAX, VIEWS, GatewayServers, LoadFailed, Run, cores
from loadtest.benchmarks.machine import commit, hardware
from seckill.stack.control import StackFault

WARM_UP_S = 2.0
CONNECTIONS = [96, 384, 640]


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if not all(1 <= each <= CONNECTIONS_MAX for each in chosen.connections):
        print(
            f"seckill: --connections must be 1 to {CONNECTIONS_MAX}, because the gateway lets at most that many wait",
            file=sys.stderr,
        )
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its servers
    console = Console()
    load_before = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory(prefix="gateway-bench-", ignore_cleanup_errors=True) as name:
            runs, steps = _measure(Path(name), chosen, console)
    except (LoadFailed, StackFault, TimeoutError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    about = {
        "commit": commit(),
        "hardware": ", ".join(f"{name} {value}" for name, value in hardware().items()),
        "load average": f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end",
        "run": f"{time.strftime('%Y-%m-%d')}, {chosen.repeat} repetitions of {chosen.seconds:g} s,"
        f" {' or '.join(map(str, chosen.connections))} connections, the better of them for each view",
    }
    page = report.markdown(runs, steps, about, cores())
    console.print(Markdown(page))
    if chosen.markdown:
        chosen.markdown.write_text(page)
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(runs, steps, about), indent=1) + "\n")
    written = ", ".join(str(path) for path in (chosen.markdown, chosen.json) if path) or "nothing written"
    print(f"accepted per second, gateway : bare view = {report.spread(report.ratios(runs))} · {written}")
    return 0


def _measure(folder: Path, chosen: argparse.Namespace, console: Console) -> tuple[list[Run], dict[str, float]]:
    runs = []
    names = {view: str(number) for number, view in enumerate(VIEWS)}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(VIEWS) * (1 + chosen.repeat * len(chosen.connections)) + 1)

        def announce(text: str) -> None:
            progress.update(task, description=text)

        with GatewayServers(folder, announce).running() as servers:
            for view in VIEWS:
                announce(f"warm up the {view}")
                servers.send_load(view, f"warm-{names[view]}", WARM_UP_S, max(chosen.connections))
                progress.advance(task)
            for repetition in range(chosen.repeat):
                for view in VIEWS if repetition % 2 else reversed(VIEWS):
                    announce(f"{view}, {repetition + 1} of {chosen.repeat}")
                    tries = []
                    for count in chosen.connections:
                        tries.append(
                            servers.send_load(view, f"{names[view]}{repetition}-{count}-", chosen.seconds, count)
                        )
                        progress.advance(task)
                    runs.append(max(tries, key=lambda run: run.accepted_s))
            announce("each step on its own")
            steps = _steps(servers)
            progress.advance(task)
    return runs, steps


def _steps(servers: GatewayServers) -> dict[str, float]:
    os.environ.update(servers.environment())
    import django

    django.setup()
    from gateway.submissions import producer

    from loadtest.benchmarks.gateway import steps
    from seckill.messaging.topics import PURCHASE_REQUESTS

    queue_producer = producer()
    try:
        return steps.measure(queue_producer, PURCHASE_REQUESTS.dead)
    finally:
        queue_producer.close(timeout=5)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.benchmarks.gateway",
        description="Accepted purchases per second, beside a bare Django view on the same server.",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run (default: 5)")
    parser.add_argument(
        "--connections", type=int, nargs="+", default=CONNECTIONS, metavar="N",
        help=f"connections with one request each; the best number for each view counts (default: {CONNECTIONS})",
    )  # fmt: skip
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
