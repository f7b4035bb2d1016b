"""Shell: `seckill lab`: break something on purpose, see the damage, and see what prevents it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, explicit_data_folder

lab = typer.Typer(no_args_is_help=True, help="Break something on purpose, see the damage, and see what prevents it.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(lab, name="lab")


@lab.command("list")
def list_labs(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List the labs with their questions."""
    from seckill.cli import lab_runs

    lab_runs.list_labs(as_json=as_json)


@lab.command()
def run(
    number: Annotated[str, typer.Argument(metavar="N", help="the number of a lab, or `all`")],
    broken: Annotated[bool, typer.Option("--broken", help="only the broken variant")] = False,
    fixed: Annotated[bool, typer.Option("--fixed", help="only the real code")] = False,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the SVG file, or a folder for it [default: var/labs]", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print only JSON")] = False,
) -> int:
    """Run a lab: the broken variant must show damage, and the real code must show none (up to 3 minutes).

    Exits with 0 if both are so. Each lab starts the servers that it needs and stops them. --data keeps their files.

    \b
    Examples:
      seckill lab run 1
      seckill lab run 5 --broken
    """
    from seckill.cli import lab_runs

    if broken and fixed:
        raise CommandError("without --broken and --fixed both variants run; give at most one of them", USAGE_ERROR)
    return lab_runs.run_labs(
        number, explicit_data_folder(), broken=broken, fixed=fixed, picture=picture, as_json=as_json
    )
