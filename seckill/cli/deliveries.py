"""Shell: `seckill deliveries`: notifications that were given up: list them, send them again."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from seckill.cli.context import DONE, REFUSED, start_django_on_stack
from seckill.cli.output import print_json, print_table

deliveries = typer.Typer(no_args_is_help=True, help="Notifications that were given up: list them, send them again.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(deliveries, name="deliveries")
    app.add_typer(deliveries, name="messages", hidden=True)  # its former name


@deliveries.command("list")
def list_given_up(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List the deliveries that a sink has rejected for good, and why."""
    start_django_on_stack()
    from notifications.models import Delivery

    names = ("id", "channel", "user_id", "event_id", "attempts", "last_fault")
    rows = list(Delivery.objects.filter(state="given_up").order_by("id").values(*names))
    if as_json:
        print_json([row | {"event_id": str(row["event_id"])} for row in rows])
    elif not rows:
        print("no delivery was given up")
    else:
        print_table(
            ("id", "channel", "user", "event", "attempts", "why"), [[row[name] for name in names] for row in rows]
        )


@deliveries.command()
def again(ids: Annotated[list[int], typer.Argument(metavar="ID …")]) -> int:
    """Send deliveries once more."""
    start_django_on_stack()
    from notifications import delivery

    refusals = 0
    for number in ids:
        try:
            row = delivery.resend_delivery(number)
        except delivery.DeliveryNotGivenUp as why:
            print(f"seckill: {why}", file=sys.stderr)
            refusals += 1
        else:
            print(f"{number}: {row.channel} to {row.user_id} is due again")
    return REFUSED if refusals else DONE
