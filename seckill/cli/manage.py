"""Shell: `seckill manage`: Django's own commands on the servers of a stack."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from seckill.cli.context import data_folder, use_stack_addresses


def add_to(app: typer.Typer) -> None:
    app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(manage)


def manage(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND …", help="Django's command and its arguments")
    ] = None,
) -> None:
    """Run a command of Django (migrate, shell, createsuperuser, …) on the stack's servers.

    \b
    Example:
      seckill manage createsuperuser
    """
    use_stack_addresses(data_folder())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["seckill manage", *(words or ())])
