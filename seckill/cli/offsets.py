"""Shell: `seckill offsets`: consumer groups that halted because a log has changed."""

from __future__ import annotations

from typing import Annotated

import typer

from seckill.cli.context import CommandError, start_django_on_stack
from seckill.cli.output import print_json, print_table

offsets = typer.Typer(
    no_args_is_help=True, help="Groups that halted after a log lost records: list them, let them continue."
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(offsets, name="offsets")


@offsets.command("list")
def list_halted(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List where a group has halted, and why."""
    start_django_on_stack()
    from seckill.messaging import halted_groups

    names = ("group", "topic", "partition", "next_offset", "halted")
    rows = [{name: getattr(row, name) for name in names} for row in halted_groups.list_halted()]
    if as_json:
        print_json(rows)
    elif not rows:
        print("no group has halted")
    else:
        print_table(("group", "topic", "partition", "next offset", "why"), [list(row.values()) for row in rows])


@offsets.command()
def resume(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION")],
    because: Annotated[str, typer.Option(metavar="TEXT", help="what happened, for the audit trail")],
    at: Annotated[
        int | None,
        typer.Option(
            metavar="OFFSET", show_default=False,
            help="where to continue [default: the start of the log; handlers ignore what they have already processed]",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Let a group continue in a partition.

    \b
    Example:
      seckill offsets resume orders inventory.decisions 3 --because "broker restored from a backup"
    """
    bootstrap_servers = start_django_on_stack()
    from seckill.messaging import halted_groups

    try:
        was, now = halted_groups.resume(bootstrap_servers, group, topic, partition, at=at, because=because)
    except halted_groups.ResumeRefused as refused:
        raise CommandError(str(refused)) from refused
    print(f"{group} continues in {topic}-{partition} at {now}; it had stopped at {was}")
