"""Shell: the `seckill` command: one tree of subcommands. The broker has a command of its own, `mqcore`.

Each group of commands is a module of this package, named after it. These modules import what they need inside their
functions, so `seckill --help` and shell completion stay fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
import typer.main
from typer import TyperException
from typer.core import TyperGroup

from seckill.cli import (
    audit,
    backlog,
    context,
    dead_letters,
    deliveries,
    demo,
    faults,
    kafka,
    lab,
    lag,
    manage,
    offsets,
    reconcile,
    refund,
    report,
    sale,
    services,
    slots,
    stack,
    stats,
    switch,
)

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False, epilog=context.EXIT_CODES,
    help="The flash sale: run it, operate it, break it, and check its books.",
)  # fmt: skip
COMMANDS = (demo, stack, sale, manage, lag, dead_letters, audit, refund, reconcile, deliveries, slots, switch, backlog,
            offsets, kafka, services, report, faults, lab, stats)  # fmt: skip
"""In the order of `seckill --help`."""
for module in COMMANDS:
    module.add_to(app)


@app.callback()
def _common(
    root: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(
            help=f"folder of the stack [default: ${context.DATA_VARIABLE} or {context.DATA_DEFAULT}]",
            metavar="FOLDER", show_default=False,
        ),
    ] = None,
) -> None:  # fmt: skip
    context.begin(root)


def command_tree() -> TyperGroup:
    tree = typer.main.get_command(app)
    assert isinstance(tree, TyperGroup)
    context.inherit_options(tree, ["data"])
    report.inherit_options(tree)
    return tree


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Everything that an operator can mend is one line on stderr; only bugs show a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(command_tree().main(words, prog_name=context.PROGRAM, standalone_mode=False) or 0)
    except TyperException as wrong:
        wrong.show()  # type: ignore[attr-defined]  # usage line, then what is wrong
        return report.TOOL_FAILED if report.is_report(words) else context.USAGE_ERROR
    except typer.Abort:
        return 130
    except SystemExit as ended:  # Django's settings end a process that has a bad environment with a text
        if not isinstance(ended.code, str):
            raise
        print(ended.code, file=sys.stderr)
        return report.TOOL_FAILED if report.is_report(words) else context.USAGE_ERROR
    except (Exception, KeyboardInterrupt) as fault:
        line = context.explain(fault)
        if line is None:
            raise
        print(f"{context.PROGRAM}: {line}", file=sys.stderr)
        return report.TOOL_FAILED if report.is_report(words) else line.exit_code


def run_and_exit() -> None:
    """The process ends here without freeing memory object by object: a report holds millions of rows."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if report.holds_evidence():
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
