"""Shell: an operator's words on who reads, and before a start: slots of purchase.requests, switches, topics."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from seckill.reaching import on_a_stack, stack_words, with_a_broker

GROUP = "inventory"
"""Who reads purchase.requests, and has to pass the old partition before a slot may go on in the new one."""
AT_ONCE = 64


def add_words(words: Any) -> None:
    where = stack_words()
    slots = words.add_parser("slots", help="which partition of purchase.requests each slot of users goes to")
    slots.set_defaults(run=with_a_broker(_slots))
    verbs = slots.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("show", help="how many slots each partition has, and what is being moved", parents=[where])
    move = verbs.add_parser("move", help="move slots; their users get 503 for a moment", parents=[where])
    move.add_argument("slot", type=int, nargs="+")
    move.add_argument("--to", type=int, required=True, metavar="PARTITION")
    grow = verbs.add_parser("grow", help="add partitions and give them their share of slots", parents=[where])
    grow.add_argument("partitions", type=int)
    grow.add_argument("--at-once", type=int, default=AT_ONCE, help=f"slots moved together (default: {AT_ONCE})")
    verbs.add_parser("finish", help="end a move that was interrupted", parents=[where])
    verbs.add_parser("abort", help="leave the slots of an interrupted move where they were", parents=[where])
    switch = words.add_parser("switch", help="let a group hold still while the sale goes on; it catches up afterwards")
    switch.set_defaults(run=on_a_stack(_switch))
    sides = switch.add_subparsers(dest="side", required=True, metavar="off|on|show")
    for side in ("off", "on"):
        sides.add_parser(side, parents=[where]).add_argument("group", nargs="+", metavar="GROUP")
    sides.add_parser("show", parents=[where])


# ── slots ────────────────────────────────────────────────────────────────────────────────────────


def _slots(chosen: argparse.Namespace, bootstrap_servers: str) -> int:
    from django.db import Error as DatabaseError
    from kafka.errors import KafkaError

    from seckill.streams.moving import Refused

    verbs = {"show": _show, "move": _move, "grow": _grow, "finish": _finish, "abort": _abort}
    try:
        verbs[chosen.verb](chosen, bootstrap_servers)
    except (Refused, KafkaError, DatabaseError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    return 0


def _show(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams.models import ProducerLease
    from seckill.streams.moving import table
    from seckill.topics import PURCHASE_REQUESTS

    row = table(PURCHASE_REQUESTS)
    print(f"{row.topic}, version {row.version}")
    shown = Table("partition", "slots", box=None)
    for partition, count in sorted(Counter(row.partition_of).items()):
        shown.add_row(str(partition), str(count))
    Console().print(shown)
    for lease in ProducerLease.objects.filter(topic=row.topic).order_by("name"):
        print(f"{lease.name} knows version {lease.version} until {lease.expires_at:%H:%M:%S} UTC")
    if row.moving:
        print(f"being moved: {len(row.moving)} slots; `seckill slots finish` or `abort` ends it")


def _move(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams.moving import Refused, move
    from seckill.streams.partitioners import SLOTS
    from seckill.topics import PURCHASE_REQUESTS

    if not all(0 <= slot < SLOTS for slot in chosen.slot) or chosen.to < 0:
        raise Refused(f"slots are 0 to {SLOTS - 1}, partitions from 0 on")
    version = move(bootstrap_servers, PURCHASE_REQUESTS, GROUP, dict.fromkeys(chosen.slot, chosen.to), print)
    print(f"{len(set(chosen.slot))} slots are moved; version {version}")


def _grow(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams import moving
    from seckill.streams.partitioners import SLOTS, SlotTable
    from seckill.topics import PURCHASE_REQUESTS as topic

    if not 0 < chosen.partitions <= SLOTS or chosen.at_once < 1:
        raise moving.Refused(f"1 to {SLOTS} partitions, and at least one slot at once")
    row = moving.table(topic)
    if row.moving:
        raise moving.Refused("slots are being moved already: `seckill slots finish` or `abort` first")
    moving.add_partitions(bootstrap_servers, topic, chosen.partitions)
    moves = sorted(SlotTable(row.version, tuple(row.partition_of)).moves_to(chosen.partitions).items())
    columns = (TextColumn("moving slots"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(moves))
        for start in range(0, len(moves), chosen.at_once):
            some = dict(moves[start : start + chosen.at_once])
            moving.move(bootstrap_servers, topic, GROUP, some, progress.console.print)
            progress.advance(task, len(some))
    print(f"{len(moves)} slots are moved; {topic.name} has {chosen.partitions} partitions in use")


def _finish(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams.moving import finish
    from seckill.topics import PURCHASE_REQUESTS

    print(f"moved; version {finish(bootstrap_servers, PURCHASE_REQUESTS, GROUP, print)}")


def _abort(chosen: argparse.Namespace, bootstrap_servers: str) -> None:
    from seckill.streams.moving import abort
    from seckill.topics import PURCHASE_REQUESTS

    print(f"left where they were; version {abort(PURCHASE_REQUESTS)}")


# ── switches ─────────────────────────────────────────────────────────────────────────────────────


def _switch(chosen: argparse.Namespace) -> int:
    from seckill.streams import switches

    if chosen.side == "show":
        for group in switches.OPTIONAL:
            print(f"{group:13} {'off' if switches.is_off(group) else 'on'}")
        return 0
    try:
        for group in chosen.group:
            changed = switches.switch(group, on=chosen.side == "on")
            print(f"{group} is {chosen.side}" + ("" if changed else ", as it was"))
    except switches.NotOptional as refused:
        print(f"seckill: {refused}", file=sys.stderr)
        return 2
    return 0


# ── before a start ───────────────────────────────────────────────────────────────────────────────


def make_topics(bootstrap_servers: str) -> int:
    """What the services need of broker and Redis before they start: the topics, the table of slots, no eviction."""
    from django.conf import settings
    from kafka.errors import KafkaError
    from redis.exceptions import RedisError

    from seckill.streams.cluster import count_partitions, create_topics
    from seckill.streams.eviction import Evicts, refuse_eviction
    from seckill.streams.moving import add_partitions
    from seckill.streams.slots import ensure
    from seckill.topics import PURCHASE_DIVERTED, PURCHASE_REQUESTS

    known = settings.ENVIRONMENT
    try:
        refuse_eviction([known.admission_redis_url, known.gate_redis_url, known.celery_redis_url])
    except (Evicts, RedisError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 1
    try:
        made = create_topics(bootstrap_servers)
        partitions = count_partitions(bootstrap_servers, PURCHASE_REQUESTS)
        ensure(PURCHASE_REQUESTS, partitions)
        if PURCHASE_DIVERTED.name in made:  # beside one that has grown meanwhile
            add_partitions(bootstrap_servers, PURCHASE_REQUESTS, partitions)
    except KafkaError as fault:
        print(f"seckill: the topics cannot be made at {bootstrap_servers}: {fault}", file=sys.stderr)
        return 1
    print(f"made: {', '.join(made)}" if made else "all topics are there")
    return 0
