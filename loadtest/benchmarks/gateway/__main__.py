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
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from loadtest.benchmarks.gateway import memory, mixed, report, streams, throughput
from loadtest.benchmarks.gateway.results import Results
from loadtest.benchmarks.gateway.servers import Announce, LoadFailed, View, cores, export_gateway
from loadtest.benchmarks.machine import commit, hardware
from seckill.config.open_files import raise_limit
from seckill.stack.broker_process import BrokerFault
from seckill.stack.control import StackFault

PARTS = ("throughput", "mixed", "streams", "memory")
CONNECTIONS = [96, 384, 640]
STREAMS = 8_000
QUICK = {"repeat": 1, "seconds": 1.0, "connections": [384], "streams": 1_000}


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parse(arguments)
    if not all(1 <= each <= throughput.WAITING_MAX for each in chosen.connections):
        limit = throughput.WAITING_MAX
        print(f"seckill: --connections must be 1 to {limit}, because the gateway lets {limit} wait", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its servers
    raise_limit(3 * chosen.streams)  # for the servers and load generators, which inherit it
    console = Console()
    load_before = os.getloadavg()[0]
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        with (
            tempfile.TemporaryDirectory(prefix="gateway-bench-", ignore_cleanup_errors=True) as name,
            Progress(*columns, console=console, transient=True) as progress,
        ):
            task = progress.add_task("")

            def announce(text: str) -> None:
                progress.update(task, description=text)
                if not console.is_terminal:
                    print(text, file=sys.stderr, flush=True)

            results = _measure(Path(name), chosen, announce)
    except (LoadFailed, StackFault, BrokerFault, TimeoutError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("seckill: interrupted; all servers have been stopped", file=sys.stderr)
        return 130
    results.about["load average"] = f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} at the end"
    page = report.markdown(results)
    console.print(Markdown(page))
    if chosen.markdown:
        chosen.markdown.write_text(page, encoding="utf-8")
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(results), indent=1) + "\n")
    written = ", ".join(str(path) for path in (chosen.markdown, chosen.json) if path) or "nothing written"
    print(f"{report.summary(results)} · {written}")
    return 0


def _measure(folder: Path, chosen: argparse.Namespace, announce: Announce) -> Results:
    """Each part has its own servers, so no part depends on what an earlier one has left in Redis or in the log."""
    other: View | None = export_gateway(chosen.against, folder / "other") if chosen.against else None
    results = Results(_about(chosen), cores(), other.name if other else "")
    if "throughput" in chosen.only:
        results.runs, results.steps_us = throughput.measure(
            folder / "throughput", other, chosen.repeat, chosen.seconds, chosen.connections, announce
        )
    if "mixed" in chosen.only:
        results.mixed = mixed.measure(folder / "mixed", other, chosen.repeat, chosen.seconds, announce)
    if "streams" in chosen.only:
        results.streams = streams.measure(
            folder / "streams", chosen.streams, chosen.repeat, chosen.seconds, announce
        )  # fmt: skip
    if "memory" in chosen.only:
        results.memory = memory.measure(folder / "memory", chosen.seconds, announce)
    return results


def _about(chosen: argparse.Namespace) -> dict[str, str]:
    connections = " or ".join(map(str, chosen.connections))
    return {
        "commit": commit(),
        "hardware": ", ".join(f"{name} {value}" for name, value in hardware().items()),
        "run": f"{time.strftime('%Y-%m-%d')}, {chosen.repeat} repetitions of {chosen.seconds:g} s; throughput with"
        f" {connections} connections, of which the best number counts for each view",
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.benchmarks.gateway",
        description="Purchases per second beside a bare Django view; purchases and polls together; event streams;"
        " memory.",
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument("--against", metavar="REV", help="measure the gateway of another commit in the same run, too")
    parser.add_argument("--quick", action="store_true", help="once and shortly, to try it (under two minutes)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run (default: 5)")
    parser.add_argument(
        "--connections", type=int, nargs="+", default=CONNECTIONS, metavar="N",
        help=f"for throughput; the best number for each view counts (default: {CONNECTIONS})",
    )  # fmt: skip
    parser.add_argument("--streams", type=int, default=STREAMS, help=f"open event streams (default: {STREAMS})")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    words = sys.argv[1:] if arguments is None else arguments
    if "--quick" in words:
        parser.set_defaults(**QUICK)
    return parser.parse_args(words)


if __name__ == "__main__":
    raise SystemExit(main())
