"""Shell: `seckill audit`: what operators have done."""

from __future__ import annotations

from typing import Annotated

import typer

from seckill.cli.context import start_django_on_stack
from seckill.cli.output import print_json, print_table


def add_to(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    verb: Annotated[
        str | None, typer.Option(help='only verbs that begin with this ("sale", "letters replay")', show_default=False)
    ] = None,
    target: Annotated[str | None, typer.Option(help="only what was done to this", show_default=False)] = None,
    last: Annotated[int, typer.Option(metavar="N", min=0, help="the newest N entries")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show what operators have done: who, when, what, and the result. The newest entry comes last."""
    start_django_on_stack()
    from seckill.audit.trail import list_entries

    rows = [
        {
            "at": row.at.isoformat(timespec="milliseconds"),
            "actor": row.actor,
            "verb": row.verb,
            "target": row.target,
            "arguments": row.arguments,
            "result": row.result,
        }
        for row in list_entries(verb=verb, target=target, most=last)
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        print("no operator has done anything yet")
    else:
        print_table(
            ("at (UTC)", "who", "verb", "target", "arguments", "result"),
            [
                (
                    row["at"][:19].replace("T", " "), row["actor"], row["verb"], row["target"],
                    "  ".join(f"{name}={value}" for name, value in row["arguments"].items()), row["result"][:120],
                )
                for row in rows
            ],
        )  # fmt: skip
