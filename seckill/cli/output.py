"""Shell: how commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 200


def console(*, stderr: bool = False) -> Console:
    """As wide as the terminal; in a file or a pipe wide enough that no cell breaks."""
    from rich.console import Console

    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL)


def print_json(value: Any, *, indent: int | None = None) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=indent))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console().print(table)
