"""Shell: which processes run: as the supervisor of `seckill up` says; elsewhere, as the report service hears them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings

from seckill.console.reports.queue import watched_processes
from seckill.stack import control
from seckill.stack.services import Layout


def read_processes() -> list[dict[str, Any]] | None:
    """Rows with `name`, `state` and `restarts`. Without a supervisor, and while nothing is heard, it returns None.

    Raises `OSError`, `KeyError`, `ValueError`, or Django's `DatabaseError`.
    """
    folder = settings.ENVIRONMENT.stack_folder
    if folder:
        rows: list[dict[str, Any]] = control.send_command(Layout(Path(folder)), {"command": "status"})["instances"]
        return rows
    watched = sorted(watched_processes().items())
    return [{"name": name, "state": state, "restarts": 0} for name, state in watched] or None
