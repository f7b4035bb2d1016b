"""Shell: an operator's words on a queue that is too long: divert new requests, and send all to one topic again."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from seckill.reaching import stack_words, with_a_broker

GROUP = "inventory"
WORDS = {
    "show": "how long the queue is, and where new requests go",
    "divert": "send new requests to a topic of their own, consumed first; who has one open stays where he is",
    "rejoin": "send everybody to the one topic again, when what was diverted has been worked off",
    "abort": "of a divert or rejoin whose operator has died: buyers go on as before it",
}


def add_words(words: Any) -> None:
    backlog = words.add_parser("backlog", help="a queue that is too long: divert new requests, and rejoin")
    backlog.set_defaults(run=with_a_broker(_backlog))
    verbs = backlog.add_subparsers(dest="verb", required=True, metavar="VERB")
    where = stack_words()
    for verb, text in WORDS.items():
        verbs.add_parser(verb, help=text, description=text.capitalize() + ".", parents=[where])


def _backlog(chosen: argparse.Namespace, bootstrap_servers: str) -> int:
    from django.db import Error as DatabaseError
    from kafka.errors import KafkaError

    from seckill.streams.moving import Refused

    verbs = {"show": _show, "divert": _divert, "rejoin": _rejoin, "abort": _abort}
    try:
        verbs[chosen.verb](bootstrap_servers)
    except (Refused, KafkaError, DatabaseError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    return 0


def _show(bootstrap_servers: str) -> None:
    from seckill.streams.lag import measure
    from seckill.streams.models import Divert
    from seckill.streams.moving import table, with_beside
    from seckill.topics import PURCHASE_REQUESTS

    for each in measure(bootstrap_servers, with_beside(PURCHASE_REQUESTS)):
        if each.group == GROUP:
            print(f"{each.topic:26} {each.records:,} undecided")
    row = table(PURCHASE_REQUESTS)
    if row.turning:
        print(f"a {row.turning} is under way, nobody is let in; `seckill backlog abort` if its operator has died")
    elif row.diverted:
        divert = Divert.objects.get(id=row.diverted)
        when = f"{divert.began_at:%Y-%m-%d %H:%M:%S} UTC"
        print(f"diverted since {when}: all but {divert.users:,} users, who had something open")
    else:
        print("nothing is diverted")


def _divert(bootstrap_servers: str) -> None:
    from seckill.streams.diverting import divert
    from seckill.topics import PURCHASE_REQUESTS

    columns = (TextColumn("who is waiting"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None)
        begun = divert(
            bootstrap_servers, PURCHASE_REQUESTS, GROUP, progress.console.print,
            lambda done, of: progress.update(task, completed=done, total=of),
        )  # fmt: skip
    print(f"diverted; {begun.users:,} users have something open and stay where they are")


def _rejoin(bootstrap_servers: str) -> None:
    from seckill.streams.diverting import rejoin
    from seckill.topics import PURCHASE_REQUESTS

    print(f"joined again; version {rejoin(bootstrap_servers, PURCHASE_REQUESTS, GROUP, print)}")


def _abort(bootstrap_servers: str) -> None:
    from seckill.streams.diverting import abort
    from seckill.topics import PURCHASE_REQUESTS

    print(f"as it was before; version {abort(PURCHASE_REQUESTS)}")
