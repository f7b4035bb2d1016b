"""Shell: `seckill report`: check the books of a run, trace one purchase, test the report itself.

Exit codes: 0 PASS, 1 FAIL, 2 UNKNOWN, 3 the report could not be made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from seckill.cli import context
from seckill.cli.context import CommandError, data_folder
from seckill.cli.output import console

if TYPE_CHECKING:
    from seckill.report.evidence import Evidence

TOOL_FAILED = 3
NOTHING_TO_TEST = """no stack has run in {folder}, so there is no run to corrupt.
The selftest needs a stack that is up, and a run on it that passes:
  seckill up                                                     (in another terminal)
  seckill sale create --name Gong --sku phone --units 20
  python -m loadtest.rush --sale 1 --buyers 80
  seckill report selftest
If the stack has another folder, name it with --data FOLDER."""

_kept_evidence: list[Evidence] = []
"""Until the process exits: freeing millions of rows takes seconds, and nothing needs their memory any more."""

report = typer.Typer(invoke_without_command=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(report, name="report")


def inherit_options(tree: TyperGroup) -> None:
    """All options of `report` may stand after `trace` and `selftest`, too."""
    group = tree.commands["report"]
    assert isinstance(group, TyperGroup)
    context.inherit_options(group, [field.name for field in fields(ReportOptions)])


def is_report(words: Sequence[str]) -> bool:
    """Whether these words call the report, whose exit codes are its own."""
    remaining = iter(words)
    for word in remaining:
        if word == "--data":
            next(remaining, None)
        elif not word.startswith("-"):
            return word == "report"
    return False


def holds_evidence() -> bool:
    return bool(_kept_evidence)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    evidence: Path | None
    patience: float
    statistics: bool
    json: str | None
    junit: Path | None
    html: Path | None
    code_links: bool
    live: bool
    every: float
    metrics_port: int | None
    metrics_host: str


def _options(params: Mapping[str, Any]) -> ReportOptions:
    """From the parameters of the group, where options that stood behind the subcommand have been stored, too."""
    return ReportOptions(**{field.name: params[field.name] for field in fields(ReportOptions)})


@report.callback()
def check(
    invocation: typer.Context,
    evidence: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False,
                     help="folder of manifest and logs [default: `evidence` in the stack's folder]"),
    ] = None,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", help="how long to wait until the queues are worked off")
    ] = 60.0,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="check Spark's counts, too, even if the run declared them off")
    ] = False,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="also as JSON; - prints only the JSON")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="also as JUnit XML, for CI systems")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="also as one HTML page with charts")] = None,
    code_links: Annotated[
        bool, typer.Option("--code-links/--no-code-links", help="whether the page links to the code on this machine")
    ] = True,
    live: Annotated[bool, typer.Option("--live", help="show residuals while a sale runs, until Ctrl-C")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="pause between two readings of --live")] = 1.0,
    metrics_port: Annotated[
        int | None, typer.Option(metavar="N", help="serve --live's residuals there, for Prometheus")
    ] = None,
    metrics_host: Annotated[str, typer.Option(metavar="ADDRESS")] = "127.0.0.1",
) -> int:  # fmt: skip
    """Check the books of a run: do database, topics, Redis, provider and sinks agree?

    \b
    Exit codes: 0 PASS, 1 FAIL, 2 UNKNOWN, 3 the report could not be made.

    \b
    Examples:
      seckill report
      seckill report trace 57437eb3-6d1f-59ca-aeaf-658467b40766
    """
    if invocation.invoked_subcommand:
        return 0
    options = _options(invocation.params)
    _check_writable(Path(options.json) if options.json not in (None, "-") else None, options.junit, options.html)
    return _watch(options) if options.live else _with_evidence(options, _print_report)


def _check_writable(*paths: Path | None) -> None:
    """Before minutes of reading, not after them."""
    for path in filter(None, paths):
        target = path if path.exists() else path.parent
        if not target.is_dir() and not path.exists():
            raise CommandError(f"{path} cannot be written, because there is no folder {path.parent}", TOOL_FAILED)
        if not os.access(target, os.W_OK):
            raise CommandError(
                f"{path} cannot be written by user {os.getuid()}; allow it with: chmod -R a+rwX {path.parent}",
                TOOL_FAILED,
            )


@report.command()
def trace(
    invocation: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="ID", help="id of a request or an order, or a user's name")],
) -> int:
    """Show the whole story of a request, an order or a user."""

    def print_timeline(options: ReportOptions, evidence: Evidence) -> int:
        from seckill.report import terminal
        from seckill.report.evidence_timeline import find_subject, timeline_of

        found = find_subject(evidence, subject)
        if found is None:
            raise CommandError(f"nothing is known of {subject}", TOOL_FAILED)
        terminal.print_timeline(console(), timeline_of(evidence, found))
        return 0

    assert invocation.parent is not None
    return _with_evidence(_options(invocation.parent.params), print_timeline)


@report.command()
def selftest(
    invocation: typer.Context,
    generate: Annotated[
        bool, typer.Option("--generate", help="also mutate every table, topic and log, column by column")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="seed of the mutations")] = 1,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="also write the findings as a page")] = None,
) -> int:
    """Corrupt a good run in many ways; the report must find each of them."""
    if not _has_run():
        print(f"seckill: {NOTHING_TO_TEST.format(folder=data_folder())}", file=sys.stderr)
        return 2

    def run_trials(options: ReportOptions, evidence: Evidence) -> int:
        from seckill.report.selftest.trials import run_selftest

        return run_selftest(console(), evidence, generate=generate, seed=seed, write=write)

    assert invocation.parent is not None
    return _with_evidence(_options(invocation.parent.params), run_trials)


@report.command()
def serve(
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="where processes send their signs of life (UDP)")
    ] = None,
) -> None:
    """Make the reports that operators order from the console, and watch servers and processes, in the foreground."""
    from seckill.cli.services import run_until_stopped, start_service
    from seckill.monitoring.signs_of_life import SIGNS_TO

    os.environ.pop(SIGNS_TO, None)  # it would only hear itself
    start_service()
    from seckill.console.reports.service import ReportService

    run_until_stopped("reports", ReportService(data_folder(), listen))


def _with_evidence(options: ReportOptions, command: Callable[[ReportOptions, Evidence], int]) -> int:
    import gc
    from dataclasses import replace

    from rich.console import Console

    from seckill.report import manifest
    from seckill.report.sources.collect import collect

    gc.disable()  # millions of rows without cycles: searching them for cycles would cost a fifth of the time
    errors = Console(stderr=True)
    try:
        declared = manifest.read_manifest(options.evidence or data_folder() / "evidence")
        if options.statistics:
            declared = replace(declared, declared_off=declared.declared_off - {manifest.OFF["analytics"]})
        with errors.status("the report begins") as status:
            evidence = collect(_addresses(), declared, options.patience, status.update)
        _kept_evidence[:] = [evidence]
        return int(command(options, evidence))
    except manifest.BadManifest as fault:
        raise CommandError(str(fault), TOOL_FAILED) from fault
    except Exception as fault:
        if context.explain(fault):
            raise
        errors.print_exception()
        return TOOL_FAILED


def _watch(options: ReportOptions) -> int:
    from rich.console import Console

    from seckill.report.live.watch import watch

    return watch(Console(), _addresses(), options.every, options.metrics_port, options.metrics_host)


def _addresses() -> Any:
    from seckill.config.environment import read
    from seckill.report.sources.collect import Addresses

    folder = data_folder()
    context.use_stack_addresses(folder)  # the clients of this process, and of those that it starts, log in like this
    environment = read(os.environ)
    return Addresses(
        environment.kafka_bootstrap_servers, environment.database_url, environment.gate_redis_url, folder / "sandbox"
    )


def _has_run() -> bool:
    """Whether there is a stack to read from: one that has written down its addresses, or one that the environment
    names."""
    return bool(context.stack_addresses(data_folder())) or "SECKILL_DATABASE_URL" in os.environ


def _print_report(options: ReportOptions, evidence: Evidence) -> int:
    from json import dumps

    from seckill.report import junit, terminal
    from seckill.report.invariants.registry import judge_invariants
    from seckill.report.verdicts import EXIT_CODES, overall_verdict

    judged = judge_invariants(evidence)
    if options.junit:
        options.junit.write_bytes(junit.to_junit_xml(judged))
    if options.html:
        from seckill.report.html.page import render_report

        folder = options.html.absolute().parent if options.code_links else None
        options.html.write_text(render_report(evidence, judged, folder), encoding="utf-8")
    if options.json == "-":
        print(dumps(terminal.report_as_json(evidence, judged), indent=1, default=str))
    else:
        terminal.print_report(console(), evidence, judged)
        if options.json:
            Path(options.json).write_text(dumps(terminal.report_as_json(evidence, judged), indent=1, default=str))
        if written := [str(path) for path in (options.html, options.json, options.junit) if path]:
            print(f"written: {', '.join(written)}")
    return EXIT_CODES[overall_verdict(judged)]
