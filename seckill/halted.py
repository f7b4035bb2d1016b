"""Shell: an operator's commands on groups that have halted, because a log is not the one that they had read."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from seckill.reaching import stack_words, with_a_broker


def add_words(words: Any) -> None:
    where = stack_words()
    offsets = words.add_parser("offsets", help="groups that halted after a log lost records: list them, let them go on")
    offsets.set_defaults(run=with_a_broker(_offsets))
    verbs = offsets.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="where a group does not go on, and why", parents=[where])
    listing.add_argument("--json", action="store_true")
    resume = verbs.add_parser("resume", help="let a group go on in a partition", parents=[where])
    resume.add_argument("group")
    resume.add_argument("topic")
    resume.add_argument("partition", type=int)
    resume.add_argument(
        "--at", type=int, metavar="OFFSET",
        help="where to go on (default: the log's start; readers drop what they have had)",
    )  # fmt: skip
    resume.add_argument("--because", required=True, metavar="TEXT", help="what happened, for the audit trail")


def _offsets(chosen: argparse.Namespace, bootstrap_servers: str) -> int:
    from django.db import Error as DatabaseError
    from kafka.errors import KafkaError

    from seckill.streams.resuming import Refused

    try:
        if chosen.verb == "list":
            _list(as_json=chosen.json)
        else:
            _resume(chosen, bootstrap_servers)
    except (Refused, KafkaError, DatabaseError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    return 0


def _list(*, as_json: bool) -> None:
    from seckill.streams.resuming import halted

    names = ("group", "topic", "partition", "next_offset", "halted")
    rows = [{name: getattr(row, name) for name in names} for row in halted()]
    if as_json:
        print(json.dumps(rows))
    elif not rows:
        print("no group has halted")
    else:
        table = Table("group", "topic", "partition", "next offset", "why", box=None)
        for row in rows:
            table.add_row(*(str(row[name]) for name in names))
        Console().print(table)


def _resume(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams.resuming import resume

    was, now = resume(
        bootstrap_servers, chosen.group, chosen.topic, chosen.partition, at=chosen.at, because=chosen.because
    )
    print(f"{chosen.group} goes on in {chosen.topic}-{chosen.partition} at {now}; it had stood at {was}")
