"""Shell: `python -m loadtest.capacity`: what a sale needs; with `--measure`, what a purchase costs here."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from loadtest.benchmarks.machine import commit, hardware
from loadtest.capacity import check, picture, report, sources
from loadtest.capacity.calibration import calibrate
from loadtest.capacity.costs import Costs, as_json
from loadtest.capacity.measurement import MeasuredStack, MeasurementFailed, Rush, cores
from loadtest.capacity.plan import Wish, make_plan
from seckill.stack.control import StackFault

EXAMPLE = Wish(buyers=2_000_000, over_s=10.0, units=50_000, wait_p99_s=30.0)
CALIBRATION = (
    Rush("request", 16_000, 4.0, 1),
    Rush("poll", 16_000, 4.0, 1, polls_per_buyer=1.0),
    Rush("unit", 4_000, 2.0, 1_000),
    Rush("visit", 400, 2.0, 1, people=True),
    Rush("payment", 300, 2.0, 300, people=True, pay=1.0),
)
SIZES = (
    Rush("small", 6_000, 2.0, 300),
    Rush("middle", 20_000, 5.0, 1_000, polls_per_buyer=0.5),
    Rush("large", 40_000, 10.0, 500, polls_per_buyer=0.2),
)
"""Sizes that no run of the calibration has."""
MET, NOT_MET, FAILED, WRONG = 0, 1, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a terminated run stops its stack
    try:
        if chosen.measure or chosen.check or chosen.write_picture:
            return _measure(chosen)
        wish = Wish(chosen.buyers, chosen.over, chosen.units, chosen.wait_p99, chosen.brokers)
        costs = sources.read_costs(chosen.costs)
        plan = make_plan(wish, costs, sources.read_speeds(costs))
    except ValueError as bad:
        print(f"capacity: {bad}", file=sys.stderr)
        return WRONG
    except (MeasurementFailed, StackFault, TimeoutError, OSError) as fault:
        print(f"capacity: {fault}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("capacity: interrupted; the stack has been stopped", file=sys.stderr)
        return 130
    print(json.dumps({**asdict(plan), "is_met": plan.is_met, "wall": plan.wall.name}) if chosen.json
          else report.plan_text(plan))  # fmt: skip
    return MET if plan.is_met else NOT_MET


def _measure(chosen: argparse.Namespace) -> int:
    """Each part that was not asked for is read from the file of an earlier run."""
    content = {} if chosen.measure else as_json(sources.read_costs(chosen.costs))
    if chosen.measure:
        content = as_json(_calibrate())
        _write(chosen.costs, content)
    costs = sources.read_costs(chosen.costs)
    if chosen.check:
        with tempfile.TemporaryDirectory(prefix="capacity-") as folder, MeasuredStack(Path(folder), _announce) as stack:
            checked = [stack.run(size) for size in SIZES]
        content["checked"] = [asdict(run) for run in checked]
        _write(chosen.costs, content)
    speeds = sources.read_speeds(costs)
    compared = check.compare(costs, sources.read_checked(chosen.costs))
    drawing, markdown = chosen.costs.with_suffix(".svg"), chosen.costs.with_suffix(".md")
    drawing.write_text(picture.svg(picture.points(speeds, EXAMPLE.over_s, _announce), EXAMPLE.over_s))
    page = report.page(costs, speeds, compared, make_plan(EXAMPLE, costs, speeds), drawing.name)
    markdown.write_text(page, encoding="utf-8")
    print(f"{chosen.costs}, {markdown} and {drawing} written")
    far = [each.run.name for each in compared if not each.is_close]
    if far:
        print(f"capacity: predictions are more than {check.ERROR_MAX:.0%} off: {', '.join(far)}", file=sys.stderr)
    return FAILED if far else 0


def _calibrate() -> Costs:
    about = {
        "commit": commit(),
        "hardware": ", ".join(f"{name} {value}" for name, value in hardware().items()),
        "run": time.strftime("%Y-%m-%d"),
    }
    with tempfile.TemporaryDirectory(prefix="capacity-") as folder, MeasuredStack(Path(folder), _announce) as stack:
        idle, commit_ms = stack.idle(), stack.commit_ms()
        runs = [stack.run(rush) for rush in CALIBRATION]
        memory_mb, records_per_s = stack.memory_mb(), stack.records_per_s()
    return calibrate(about, cores(), commit_ms, idle, runs, memory_mb, records_per_s)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _announce(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.capacity",
        description="What a sale needs: gateways, partitions, consumers, brokers, rates of Postgres and Redis, memory,"
        " and the part that limits it. Exit code 0: the wish can be met; 1: it cannot, or a measurement failed;"
        " 2: wrong usage.",
    )
    parser.add_argument("--buyers", type=int, default=EXAMPLE.buyers, help=f"({EXAMPLE.buyers:,})")
    parser.add_argument(
        "--over", type=float, default=EXAMPLE.over_s, metavar="SECONDS", help="how long they take to arrive (10)"
    )
    parser.add_argument("--units", type=int, default=EXAMPLE.units, help=f"of one article ({EXAMPLE.units:,})")
    parser.add_argument(
        "--wait-p99", type=float, default=EXAMPLE.wait_p99_s, metavar="SECONDS",
        help="99 %% of the buyers know their outcome after this time (30)",
    )  # fmt: skip
    parser.add_argument("--brokers", type=int, metavar="N", help="how many there are; otherwise they are counted, too")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument(
        "--costs", type=Path, default=sources.COSTS, metavar="FILE",
        help="measured costs; --measure and --check write this file and the page and picture beside it",
    )  # fmt: skip
    parser.add_argument("--measure", action="store_true", help="measure what a purchase costs on this machine (4 min)")
    parser.add_argument("--check", action="store_true", help="compare predictions with three rushes (2 min)")
    parser.add_argument(
        "--page", dest="write_picture", action="store_true", help="only write the page and the picture again"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
