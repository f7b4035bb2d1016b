"""Shell: `seckill audit`: what operators have done, newest last."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seckill.reaching import on_a_stack, stack_words


def add_words(words: Any) -> None:
    audit = words.add_parser(
        "audit", help="what operators have done: who, when, what, and what came of it", parents=[stack_words()]
    )
    audit.add_argument("--verb", help='only these, by their beginning ("sale", "letters replay")')
    audit.add_argument("--target", help="only what was done to this")
    audit.add_argument("--last", type=int, default=50, metavar="N", help="at most so many, the newest (default: 50)")
    audit.add_argument("--json", action="store_true")
    audit.set_defaults(run=on_a_stack(told))


def told(chosen: argparse.Namespace) -> int:
    from seckill.audit.trail import listed

    rows = [
        {
            "at": row.at.isoformat(timespec="milliseconds"),
            "actor": row.actor,
            "verb": row.verb,
            "target": row.target,
            "arguments": row.arguments,
            "result": row.result,
        }
        for row in listed(verb=chosen.verb, target=chosen.target, most=max(0, chosen.last))
    ]
    if chosen.json:
        print(json.dumps(rows, ensure_ascii=False))
    elif not rows:
        print("no operator has done anything yet")
    else:
        table = Table("at (UTC)", "who", "verb", "target", "arguments", "result", box=None)
        for row in rows:
            arguments = "  ".join(f"{name}={value}" for name, value in row["arguments"].items())
            at = row["at"][:19].replace("T", " ")
            cells = (at, row["actor"], row["verb"], row["target"], arguments, row["result"][:120])
            table.add_row(*map(escape, cells))
        Console().print(table)
    return 0
