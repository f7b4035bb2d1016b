"""Shell: an operator's words on messages to buyers: those that a sink has refused for good, and sending them again."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seckill.reaching import on_a_stack, stack_words


def add_words(words: Any) -> None:
    where = stack_words()
    messages = words.add_parser("messages", help="messages to buyers that were given up: list them, send them again")
    verbs = messages.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="what a sink has refused for good, and why", parents=[where])
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=on_a_stack(_list))
    again = verbs.add_parser("again", help="send them once more", parents=[where])
    again.add_argument("id", type=int, nargs="+", metavar="ID")
    again.set_defaults(run=on_a_stack(_again))


def _list(chosen: argparse.Namespace) -> int:
    from notifications.models import Delivery

    names = ("id", "channel", "user_id", "event_id", "attempts", "last_fault")
    rows = list(Delivery.objects.filter(state="given_up").order_by("id").values(*names))
    if chosen.json:
        print(json.dumps([row | {"event_id": str(row["event_id"])} for row in rows], ensure_ascii=False))
    elif not rows:
        print("no message was given up")
    else:
        table = Table("id", "channel", "user", "event", "attempts", "why", box=None)
        for row in rows:
            table.add_row(*(escape(str(row[name])) for name in names))
        Console().print(table)
    return 0


def _again(chosen: argparse.Namespace) -> int:
    from notifications import delivery

    refused = 0
    for number in chosen.id:
        try:
            row = delivery.again(number)
        except delivery.NotGivenUp as why:
            print(f"seckill: {why}", file=sys.stderr)
            refused += 1
        else:
            print(f"{number}: {row.channel} to {row.user_id} is due again")
    return 1 if refused else 0
