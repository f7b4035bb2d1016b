"""Shell: `seckill slots`: move users between partitions of purchase.requests, and add partitions, while a sale runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from seckill.cli.context import CommandError, start_django_on_stack
from seckill.cli.output import print_table

GROUP = "inventory"
"""The reader of purchase.requests: it must finish the old partition before a slot may continue in the new one."""
SLOTS_AT_ONCE = 64

slots = typer.Typer(no_args_is_help=True, help="Which partition of purchase.requests each slot of users goes to.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(slots, name="slots")


@contextmanager
def one_line_for_refusals() -> Iterator[None]:
    from seckill.messaging.slot_moves import SlotChangeRefused

    try:
        yield
    except SlotChangeRefused as refused:
        raise CommandError(str(refused)) from refused


@slots.command()
def show() -> None:
    """Show how many slots each partition has, and what is being moved."""
    start_django_on_stack()
    from seckill.messaging.models import ProducerLease
    from seckill.messaging.slot_moves import load_slot_map
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        row = load_slot_map(PURCHASE_REQUESTS)
    print(f"{row.topic}, version {row.version}")
    print_table(("partition", "slots"), sorted(Counter(row.partition_of).items()))
    for lease in ProducerLease.objects.filter(topic=row.topic).order_by("name"):
        print(f"{lease.name} knows version {lease.version} until {lease.expires_at:%H:%M:%S} UTC")
    if row.moving:
        print(f"being moved: {len(row.moving)} slots; `seckill slots finish` or `abort` ends it")


@slots.command()
def move(
    slot: Annotated[list[int], typer.Argument(metavar="SLOT …")],
    to: Annotated[int, typer.Option(metavar="PARTITION", help="where they go")],
) -> None:
    """Move slots to another partition; their users get 503 for a moment.

    \b
    Example:
      seckill slots move 17 18 --to 3
    """
    bootstrap_servers = start_django_on_stack()
    from seckill.messaging.partitioners import SLOTS
    from seckill.messaging.slot_moves import SlotChangeRefused, move_slots
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        if not all(0 <= each < SLOTS for each in slot) or to < 0:
            raise SlotChangeRefused(f"slots are 0 to {SLOTS - 1}, partitions start at 0")
        version = move_slots(bootstrap_servers, PURCHASE_REQUESTS, GROUP, dict.fromkeys(slot, to), print)
    print(f"{len(set(slot))} slots are moved; version {version}")


@slots.command()
def grow(
    partitions: Annotated[int, typer.Argument(metavar="PARTITIONS", help="how many there shall be")],
    at_once: Annotated[int, typer.Option(help="slots moved together")] = SLOTS_AT_ONCE,
) -> None:
    """Add partitions and give them their share of the slots."""
    bootstrap_servers = start_django_on_stack()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from seckill.messaging import slot_moves
    from seckill.messaging.partitioners import SLOTS, SlotTable
    from seckill.messaging.topics import PURCHASE_REQUESTS as topic

    with one_line_for_refusals():
        if not 0 < partitions <= SLOTS or at_once < 1:
            raise slot_moves.SlotChangeRefused(f"there can be 1 to {SLOTS} partitions, and --at-once is at least 1")
        row = slot_moves.load_slot_map(topic)
        if row.moving:
            raise slot_moves.SlotChangeRefused("slots are being moved already: `seckill slots finish` or `abort` first")
        slot_moves.add_partitions(bootstrap_servers, topic, partitions)
        moves = sorted(SlotTable(row.version, tuple(row.partition_of)).moves_to(partitions).items())
        columns = (TextColumn("moving slots"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=len(moves))
            for start in range(0, len(moves), at_once):
                some = dict(moves[start : start + at_once])
                slot_moves.move_slots(bootstrap_servers, topic, GROUP, some, progress.console.print)
                progress.advance(task, len(some))
    print(f"{len(moves)} slots are moved; {topic.name} uses {partitions} partitions")


@slots.command()
def finish() -> None:
    """Complete a move that was interrupted."""
    bootstrap_servers = start_django_on_stack()
    from seckill.messaging.slot_moves import finish_move
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        print(f"moved; version {finish_move(bootstrap_servers, PURCHASE_REQUESTS, GROUP, print)}")


@slots.command()
def abort() -> None:
    """Leave the slots of an interrupted move where they were."""
    start_django_on_stack()
    from seckill.messaging.slot_moves import abort_move
    from seckill.messaging.topics import PURCHASE_REQUESTS

    with one_line_for_refusals():
        print(f"the slots stay where they were; version {abort_move(PURCHASE_REQUESTS)}")
