"""Shell: `seckill backlog`: divert new requests when the queue is too long, and join the two queues again."""

from __future__ import annotations

from typing import Annotated

import typer

from seckill.cli.context import start_django_on_stack
from seckill.cli.output import print_json
from seckill.cli.slots import GROUP, one_line_for_refusals

backlog = typer.Typer(no_args_is_help=True, help="A queue that is too long: divert new requests, and rejoin later.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(backlog, name="backlog")


@backlog.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show how long the queue is, and where new requests go."""
    bootstrap_servers = start_django_on_stack()
    from seckill.messaging.lag import measure_lag
    from seckill.messaging.models import Divert
    from seckill.messaging.slot_moves import load_slot_map, with_overflow
    from seckill.messaging.topics import PURCHASE_REQUESTS

    lags = measure_lag(bootstrap_servers, with_overflow(PURCHASE_REQUESTS))
    undecided = {each.topic: each.records for each in lags if each.group == GROUP}
    with one_line_for_refusals():
        row = load_slot_map(PURCHASE_REQUESTS)
    if as_json:
        print_json({"undecided": undecided, "is_diverted": bool(row.diverted), "transition": row.transition})
        return
    for topic, records in undecided.items():
        print(f"{topic:26} {records:,} undecided")
    if row.transition:
        print(f"a {row.transition} is under way, purchases wait; if its operator has died: `seckill backlog abort`")
    elif row.diverted:
        divert = Divert.objects.get(id=row.diverted)
        since = f"{divert.began_at:%Y-%m-%d %H:%M:%S} UTC"
        print(f"diverted since {since}, except for {divert.users:,} users with requests in the old queue")
    else:
        print("nothing is diverted")


@backlog.command()
def divert() -> None:
    """Send new requests to a topic of their own, which is read first.

    Users with a request in the old queue stay there, so that nobody overtakes an own earlier request.
    """
    bootstrap_servers = start_django_on_stack()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from seckill.messaging import diversion
    from seckill.messaging.topics import PURCHASE_REQUESTS

    columns = (TextColumn("reading the queue"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with one_line_for_refusals(), Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None)
        begun = diversion.divert(
            bootstrap_servers, PURCHASE_REQUESTS, GROUP, progress.console.print,
            lambda done, of: progress.update(task, completed=done, total=of),
        )  # fmt: skip
    print(f"diverted; {begun.users:,} users with requests in the old queue stay there")


@backlog.command()
def rejoin() -> None:
    """Send all requests to one topic again, once the diverted ones have been decided."""
    bootstrap_servers = start_django_on_stack()
    from seckill.messaging import diversion
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        print(f"joined again; version {diversion.rejoin(bootstrap_servers, PURCHASE_REQUESTS, GROUP, print)}")


@backlog.command()
def abort() -> None:
    """Undo a divert or rejoin whose operator's process has died, so that purchases go on."""
    start_django_on_stack()
    from seckill.messaging.diversion import abort_diversion
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        print(f"undone; version {abort_diversion(PURCHASE_REQUESTS)}")
