"""Shell: `seckill report`, `… trace ID`, `… selftest`. Exit: 0 PASS, 1 FAIL, 2 UNKNOWN, 3 the tool itself failed."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from seckill.consistency import junit, manifest, show, timeline
from seckill.consistency.evidence import Evidence
from seckill.consistency.invariants.judging import judge
from seckill.consistency.manifest import OFF, BadManifest
from seckill.consistency.sources.collect import Addresses, collect
from seckill.consistency.verdicts import EXIT_CODES, TOOL_FAILED, Verdict, overall
from seckill.environment import BadEnvironment, read

WIDE = 200
NO_RUN = """seckill report: no stack has run in {folder}, so there is nothing to spoil.
The selftest needs a stack that is up, and a run on it that passes:
  seckill up                                                     (in another terminal)
  seckill manage sale create --name Gong --sku phone --units 20
  python -m loadtest.rush --sale 1 --buyers 80
  seckill report selftest
If the stack has another folder, name it: --data FOLDER."""

_KEPT: list[Evidence] = []
"""Until the process ends: to free millions of rows takes seconds, and nobody needs their memory any more."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(TOOL_FAILED, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    errors = Console(stderr=True)
    if chosen.sub == "selftest" and not _has_run(chosen.data):
        print(NO_RUN.format(folder=chosen.data), file=sys.stderr)
        return EXIT_CODES[Verdict.UNKNOWN]
    gc.disable()  # millions of rows and no cycles among them: looking for some costs a fifth of the time
    try:
        environment = read(_variables(chosen.data))
        where = Addresses(
            environment.kafka_bootstrap_servers,
            environment.database_url,
            environment.gate_redis_url,
            chosen.data / "sandbox",
        )
        if chosen.live:
            from seckill.consistency.live.watching import watch

            return watch(Console(), where, chosen.every, chosen.metrics_port, chosen.metrics_host)
        declared = manifest.read(chosen.evidence or chosen.data / "evidence")
        if chosen.statistics:
            declared = replace(declared, off=declared.off - {OFF["analytics"]})
        with errors.status("the report begins") as status:
            evidence = collect(where, declared, chosen.patience, status.update)
        _KEPT[:] = [evidence]
        return int(chosen.run(chosen, evidence))
    except (BadEnvironment, BadManifest) as fault:
        print(f"seckill report: {fault}", file=sys.stderr)
    except Exception:
        errors.print_exception()
    return TOOL_FAILED


def leave(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command as a process: it ends here, without giving back millions of rows one by one."""
    code = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _has_run(data: Path) -> bool:
    """Is there a stack to ask: one that has written down where it is, or one that the environment names?"""
    return (data / "run" / "environment.json").exists() or "SECKILL_DATABASE_URL" in os.environ


def _variables(data: Path) -> dict[str, str]:
    """What is set for this process, else what the running stack has written down, else the defaults."""
    path = data / "run" / "environment.json"
    written: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return {**written, **os.environ}


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="seckill report", description="Do the books of a run agree?", parents=[_options()])
    parser.set_defaults(run=_report, sub=None)
    words = parser.add_subparsers(dest="sub", metavar="WORD")
    anywhere = [_options(is_default=False)]  # before the word or after it
    trace = words.add_parser("trace", help="the whole story of a request, an order or a user", parents=anywhere)
    trace.add_argument("id")
    trace.set_defaults(run=_trace)
    selftest = words.add_parser("selftest", help="spoil a good run in many ways: each must be found", parents=anywhere)
    selftest.add_argument(
        "--generate", action="store_true", help="mutate every table, topic and log of it, too, column by column"
    )
    selftest.add_argument("--seed", type=int, default=1, metavar="N", help="of the mutations (default: 1)")
    selftest.add_argument("--write", type=Path, metavar="FILE", help="what was found by what, as a page, too")
    selftest.set_defaults(run=_selftest)
    return parser


def _options(*, is_default: bool = True) -> _Parser:
    """What every word takes. After a word nothing is set that was not said: what was said before it stays."""
    options = _Parser(add_help=False, argument_default=None if is_default else argparse.SUPPRESS)

    def otherwise(value: Any) -> dict[str, Any]:
        return {"default": value} if is_default else {}

    options.add_argument(
        "--data", type=Path, **otherwise(Path("var/stack")), help="folder of the stack (default: var/stack)"
    )
    options.add_argument("--evidence", type=Path, help="folder of manifest and logs (default: evidence in the stack's)")
    options.add_argument(
        "--patience", type=float, **otherwise(60.0), metavar="SECONDS", help="so long it waits until all is worked off"
    )
    options.add_argument(
        "--statistics",
        action="store_true",
        **otherwise(False),
        help="judge Spark's counts, too, of which the crowd that began did not know",
    )
    options.add_argument("--json", metavar="FILE", help="write it as JSON, too; - for standard output instead")
    options.add_argument(
        "--junit", metavar="FILE", type=Path, help="write it as JUnit's XML, too, as CI systems read it"
    )
    options.add_argument("--html", metavar="FILE", type=Path, help="write it as one page with pictures, too")
    options.add_argument(
        "--live", action="store_true", **otherwise(False), help="while the sale is on: residuals, until Ctrl-C"
    )
    options.add_argument("--every", type=float, **otherwise(1.0), metavar="SECONDS", help="between two looks of --live")
    options.add_argument("--metrics-port", type=int, metavar="N", help="show --live's residuals there, for Prometheus")
    options.add_argument("--metrics-host", **otherwise("127.0.0.1"), metavar="ADDRESS", help="(default: 127.0.0.1)")
    return options


def _report(chosen: argparse.Namespace, evidence: Evidence) -> int:
    judged = judge(evidence)
    if chosen.junit:
        chosen.junit.write_bytes(junit.written(judged))
    if chosen.html:
        from seckill.consistency.page import document

        chosen.html.write_text(document.written(evidence, judged), encoding="utf-8")
    if chosen.json == "-":
        print(json.dumps(show.as_json(evidence, judged), indent=1, default=str))
    else:
        show.as_table(_console(), evidence, judged)
        if chosen.json:
            Path(chosen.json).write_text(json.dumps(show.as_json(evidence, judged), indent=1, default=str))
    return EXIT_CODES[overall(judged)]


def _trace(chosen: argparse.Namespace, evidence: Evidence) -> int:
    subject = timeline.find(evidence, chosen.id)
    if subject is None:
        print(f"seckill report: nothing is known of {chosen.id}", file=sys.stderr)
        return TOOL_FAILED
    show.as_timeline(_console(), timeline.of(evidence, subject))
    return 0


def _selftest(chosen: argparse.Namespace, evidence: Evidence) -> int:
    from seckill.consistency.selftest.running import run

    return run(_console(), evidence, generate=chosen.generate, seed=chosen.seed, write=chosen.write)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)
