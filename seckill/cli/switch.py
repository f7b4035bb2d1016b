"""Shell: `seckill switch`: pause optional consumer groups while the sale goes on."""

from __future__ import annotations

from typing import Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, start_django_on_stack
from seckill.cli.output import print_json

switch = typer.Typer(
    no_args_is_help=True, help="Pause optional consumer groups while the sale goes on; they catch up afterwards."
)
Groups = Annotated[list[str], typer.Argument(metavar="GROUP …")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(switch, name="switch")


@switch.command()
def off(groups: Groups) -> None:
    """Pause groups: their consumers stop reading within a second."""
    _set_switches(groups, is_on=False)


@switch.command()
def on(groups: Groups) -> None:
    """Let paused groups read on."""
    _set_switches(groups, is_on=True)


@switch.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show which groups can be paused, and which are."""
    start_django_on_stack()
    from seckill.messaging import group_switches

    states = {
        group: "off" if group_switches.is_switched_off(group) else "on" for group in group_switches.OPTIONAL_GROUPS
    }
    if as_json:
        print_json(states)
        return
    for group, state in states.items():
        print(f"{group:13} {state}")


def _set_switches(groups: list[str], *, is_on: bool) -> None:
    start_django_on_stack()
    from seckill.messaging import group_switches

    for group in groups:
        try:
            has_changed = group_switches.set_switch(group, on=is_on)
        except group_switches.GroupNotOptional as refused:
            raise CommandError(str(refused), USAGE_ERROR) from refused
        print(f"{group} {'is' if has_changed else 'was already'} {'on' if is_on else 'off'}")
