"""Shell: what `seckill faults` does: list cases, run them, run a soak. Imported only when it is called."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import seckill.lab.faults.cases  # noqa: F401  # fills the table
from seckill.cli.context import DONE, REFUSED, UNAVAILABLE, USAGE_ERROR, CommandError
from seckill.cli.output import console, print_json
from seckill.lab.faults import growth, html_page, markdown_page, soak_page
from seckill.lab.faults.case import CASES, Case, cases_in_order
from seckill.lab.faults.results import NOT_RUN, CaseResult, group_cases
from seckill.lab.faults.runner import Runner
from seckill.lab.faults.soak import Soak
from seckill.lab.kafka_target import KafkaTarget
from seckill.report.verdicts import Verdict, overall_verdict
from seckill.stack.child_processes import PORT_MAX

PORT_MIN, PORTS_OF_A_STACK = 1024, 50
LONG_CASE = "chaos"
"""`all` leaves it out, because it takes a night; run it by its name."""


def list_cases(*, as_json: bool) -> None:
    if as_json:
        names = ("number", "name", "title", "expected", "needs")
        print_json([{name: getattr(case, name) for name in names} for case in cases_in_order()], indent=1)
        return
    table = Table("", "case", "expected verdict", "what happens", box=None)
    for case in cases_in_order():
        needs = f" [dim]needs {case.needs}[/]" if case.needs else ""
        table.add_row(case.number, case.name, case.expected + needs, escape(case.title))
    console().print(table)


def _check_first_port(first_port: int) -> None:
    if not PORT_MIN <= first_port <= PORT_MAX - PORTS_OF_A_STACK:
        highest = PORT_MAX - PORTS_OF_A_STACK
        raise CommandError(f"--first-port must be {PORT_MIN} to {highest}, got {first_port}", USAGE_ERROR)


def run_command(
    names: Sequence[str], *, brokers: int, seed: int, scale: float, together: int, write: Path,
    kafka: KafkaTarget | None = None,
) -> str:  # fmt: skip
    """The command that repeats a run, with the options that change its results."""
    options = {"--brokers": (brokers, 1), "--seed": (seed, 1), "--scale": (scale, 1), "--together": (together, 1)}
    given = [f"{option} {value:g}" for option, (value, default) in options.items() if value != default]
    if kafka is not None:
        given.append("--kafka-nodes var/kafka" if kafka.nodes else "--kafka HOST:PORT")
    return " ".join(["seckill faults run", *names, *given, f"--write {write}"])


def run_cases(
    names: Sequence[str], folder: Path, *, brokers: int, kafka: KafkaTarget | None, resume: bool, seed: int,
    scale: float, together: int, first_port: int, write: Path | None,
) -> int:  # fmt: skip
    _check_first_port(first_port)
    try:
        cases = _find_cases(names)
    except KeyError as unknown:
        raise CommandError(f"there is no case {unknown}; `seckill faults list` shows them", UNAVAILABLE) from unknown
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    out = console()
    if kafka is not None:
        kafka.log_in()
        brokers = len(kafka.address.split(",")) if kafka.nodes else 1
    runner = Runner(
        folder, first_port, seed, scale, lambda text: _print_line(out, f"  {text}"), brokers=brokers, kafka=kafka
    )
    rows = {row.name: row for row in runner.load_results()} if resume else {}
    succeeded = {name for name, row in rows.items() if row.behaved and row.verdict != NOT_RUN}
    remaining = [case for case in cases if case.name not in succeeded]
    try:
        _run_groups(runner, group_cases(remaining, max(1, together), brokers, kafka), rows, out)
    except KeyboardInterrupt:
        raise CommandError("interrupted; the same command with --resume continues from here", UNAVAILABLE) from None
    finally:
        runner.stop_stack()
    done = [rows[case.name] for case in cases]
    page = folder / "faults.html"
    page.write_text(html_page.render_faults(done, seed, scale), encoding="utf-8")
    if write:
        command = run_command(
            names, brokers=1 if kafka else brokers, kafka=kafka, seed=seed, scale=scale, together=together, write=write
        )
        markdown_page.write_faults_page(done, folder, write, command, scale)
    out.print(_table(done))
    failures = [row for row in done if not row.behaved]
    run = sum(row.verdict != NOT_RUN for row in done)
    verdict = f"{len(failures)} of {run} did not behave" if failures else f"all {run} behaved as expected"
    left_out = f", {len(done) - run} not run" if run < len(done) else ""
    out.print(f"{verdict}{left_out} · {page}", highlight=False, soft_wrap=True)
    return REFUSED if failures else DONE


def run_soak(minutes: float, folder: Path, *, seed: int, first_port: int, write: Path | None) -> int:
    _check_first_port(first_port)
    if minutes <= 0:
        raise CommandError(f"--minutes must be above 0, got {minutes:g}", UNAVAILABLE)
    if (folder / "stack").exists():
        raise CommandError(f"{folder} holds an earlier soak; name another folder with --data", UNAVAILABLE)
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    out = console()
    soak = Soak(folder, first_port, seed, lambda text: _print_line(out, f"  {text}"))
    try:
        judged = soak.run(minutes)
    except KeyboardInterrupt:
        raise CommandError("interrupted", UNAVAILABLE) from None
    finally:
        soak.stop()
    series = growth.judge(soak.samples)
    growing, verdict = [each for each in series if each.grows], overall_verdict(judged)
    if write:
        command = f"seckill faults soak --minutes {minutes:g} --seed {seed} --write {write}"
        counts = {
            "minutes": f"{minutes:g}", "sales": soak.sales, "killed": soak.killed.total(),
            "frozen": soak.frozen.total(), "samples": len(soak.samples), "report": verdict.value,
        }  # fmt: skip
        soak_page.write_soak_page(write, command, counts, judged, series, soak.samples)
    for each in growing:
        _print_line(out, f"grows: {each.what}, from {each.middle:,.0f} to {each.last:,.0f} {each.unit}")
    _print_line(out, f"{soak.sales} sales, {soak.killed.total()} killed, {soak.frozen.total()} frozen")
    _print_line(out, f"report: {verdict.value} · {len(series)} curves, {len(growing)} grow · {folder / 'reports'}")
    return REFUSED if growing or verdict is not Verdict.PASS else DONE


def _run_groups(runner: Runner, groups: Sequence[Sequence[Case]], rows: dict[str, CaseResult], out: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=out, disable=not out.is_terminal) as progress:
        done, total = 0, sum(map(len, groups))
        task = progress.add_task("faults", total=total)
        for cases in groups:
            progress.update(task, description=" ".join(case.name for case in cases[:3]) + " …" * (len(cases) > 3))
            finished = runner.run(cases)
            rows |= {row.name: row for row in finished}
            runner.save_results(list(rows.values()))
            for row in finished:
                done += 1
                outcome = "as expected" if row.behaved else f"NOT as expected: {row.why}"
                _print_line(out, f"{done}/{total} {row.name}: {row.verdict}, {outcome} ({row.took_s:.0f} s)")
            progress.advance(task, len(cases))


def _find_cases(names: Sequence[str]) -> list[Case]:
    """By name or number; `all` means every case that takes minutes."""
    by_number = {case.number: case for case in CASES.values()}
    chosen: dict[str, Case] = {}
    for name in names:
        found = [CASES.get(name) or by_number[name]] if name != "all" else cases_in_order()
        chosen |= {case.name: case for case in found if name != "all" or case.name != LONG_CASE}
    return list(chosen.values())


def _print_line(out: Console, text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def _table(rows: Sequence[CaseResult]) -> Table:
    table = Table(
        "", "case", "what was injected", "in flight", "redelivered", "recovered", "report", "expected", "", box=None
    )
    for row in rows:
        power = ", ".join(f"{name} {_number(value)}" for name, value in row.power.items()) or row.why
        mark = "[green]as expected[/]" if row.behaved else f"[bold red]{escape(row.why)}[/]"
        table.add_row(
            row.number, row.name, escape(power), _known(row.in_flight), str(row.again or ""), _seconds(row.recovery_ms),
            row.verdict, escape(row.expected), "" if row.verdict == NOT_RUN else mark,
        )  # fmt: skip
    return table


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _known(count: int) -> str:
    return "" if count < 0 else f"{count:,}"


def _seconds(ms: int) -> str:
    return "" if ms < 0 else f"{ms / 1000:.1f} s"
