"""Shell: an operator's words on the streams: how far behind the groups are, and what to do with dead letters.

`replay` and `discard` only say what they would do until they are told `--yes`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seckill.processes import GROUPS, handler
from seckill.reaching import on_a_stack, stack_words, with_a_broker


def add_words(words: Any) -> None:
    where, groups = stack_words(), sorted(GROUPS)
    lag = words.add_parser(
        "lag", help="how far behind each group is; exit 1 if one is further than --alarm", parents=[where]
    )
    lag.add_argument("--json", action="store_true", help="for programs")
    lag.add_argument("--alarm", type=int, metavar="RECORDS", help="so far behind is too far")
    lag.set_defaults(run=with_a_broker(_lag))
    letters = words.add_parser("letters", help="dead letters: list, show, replay, discard")
    letters.set_defaults(run=on_a_stack(_letters))
    verbs = letters.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="those that are open", parents=[where])
    listing.add_argument("--group", choices=groups)
    listing.add_argument("--all", action="store_true", help="closed ones, too")
    listing.add_argument("--json", action="store_true")
    show = verbs.add_parser("show", help="all that is known of one", parents=[where])
    show.add_argument("id", type=int)
    for verb, text in {
        "replay": "hand it to its group again, in its first place",
        "discard": "give it up (a purchase request is then INVALID, a reservation releases its units)",
    }.items():
        one = verbs.add_parser(verb, help=text, parents=[where])
        one.add_argument("id", type=int, nargs="*")
        one.add_argument("--group", choices=groups, help="all open ones of a group")
        one.add_argument("--yes", action="store_true", help="do it; without this it is only said what would happen")
    verbs.choices["replay"].add_argument("--quarantined", action="store_true", help="those, too, that failed too often")
    verbs.choices["discard"].add_argument("--because", default="", help="why; kept with the letter")


# ── lag ──────────────────────────────────────────────────────────────────────────────────────────


def _lag(chosen: argparse.Namespace, bootstrap_servers: str) -> int:
    from django.db.models import Count

    from seckill.streams.lag import measure
    from seckill.streams.models import DeadLetter, OutboxRow
    from seckill.topics import TOPICS

    lags = measure(bootstrap_servers, TOPICS.values())
    unpublished = dict(OutboxRow.objects.values_list("writer").annotate(Count("id")).order_by())
    dead = DeadLetter.objects.filter(state=DeadLetter.State.OPEN).count()
    if chosen.json:
        print(json.dumps({"groups": [each._asdict() for each in lags], "outbox": unpublished, "dead_letters": dead}))
    else:
        table = Table("group", "topic", "behind", "partitions behind", box=None)
        for each in lags:
            table.add_row(each.group, each.topic, f"{each.records:,}", str(each.partitions or ""))
        Console().print(table)
        print(f"unpublished: {unpublished or 'nothing'}; open dead letters: {dead}")
    late = [each for each in lags if chosen.alarm is not None and each.records > chosen.alarm]
    for each in late:
        print(f"seckill: {each.group} is {each.records:,} records behind in {each.topic}", file=sys.stderr)
    return 1 if late else 0


# ── dead letters ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Summary:
    id: int
    group: str
    place: str
    state: str
    attempts: int
    replays: int
    reason: str


def _letters(chosen: argparse.Namespace) -> int:
    return {"list": _list, "show": _show, "replay": _act, "discard": _act}[chosen.verb](chosen)


def _list(chosen: argparse.Namespace) -> int:
    from seckill.streams.letters import listed

    rows = [_summary(letter) for letter in listed(group=chosen.group) if chosen.all or _is_pending(letter)]
    if chosen.json:
        print(json.dumps([asdict(row) for row in rows]))
    elif not rows:
        print("no dead letters")
    else:
        table = Table("id", "group", "place", "state", "attempts", "replays", "reason", box=None)
        for row in rows:
            table.add_row(*(escape(str(value)[:100]) for value in asdict(row).values()))
        Console().print(table)
    return 0


def _show(chosen: argparse.Namespace) -> int:
    letter = _one(chosen.id)
    if letter is None:
        return 1
    for name, value in asdict(_summary(letter)).items():
        print(f"{name:9} {value}")
    print(f"{'died':9} {letter.died_at:%Y-%m-%d %H:%M:%S} UTC")
    print(f"{'key':9} {_text(letter.key)}")
    print(f"{'headers':9} {letter.headers}")
    print(f"{'note':9} {letter.note}")
    print(_text(letter.value))
    return 0


def _act(chosen: argparse.Namespace) -> int:
    from seckill.streams import letters

    if bool(chosen.id) == bool(chosen.group):
        print("seckill: name letters by their ids, or all of a --group", file=sys.stderr)
        return 2
    if chosen.group:
        found = [letter for letter in letters.listed(group=chosen.group) if _is_pending(letter)]
    else:
        found = [letter for letter in map(_one, chosen.id) if letter is not None]
    failed = 0 if chosen.group else len(chosen.id) - len(found)
    for letter in found:
        if chosen.verb == "discard":
            why = letters.discard(letter, handler(letter.group), chosen.because) if chosen.yes else None
        elif chosen.yes:
            why = letters.replay(letter, handler(letter.group), quarantined=chosen.quarantined)
        else:
            why = letters.try_out(letter)
        said = f"{chosen.verb}ed" if chosen.yes else f"would be {chosen.verb}ed (say --yes to do it)"
        print(f"{letter.id} {letter.topic}-{letter.partition}@{letter.offset}: {said if why is None else why}")
        failed += why is not None
    return 1 if failed else 0


def _one(number: int) -> Any:
    from seckill.streams.models import DeadLetter

    letter = DeadLetter.objects.filter(id=number).first()
    if letter is None:
        print(f"seckill: there is no dead letter {number}", file=sys.stderr)
    return letter


def _is_pending(letter: Any) -> bool:
    return letter.state in ("open", "quarantined")


def _summary(letter: Any) -> Summary:
    place = f"{letter.topic}-{letter.partition}@{letter.offset}"
    return Summary(letter.id, letter.group, place, letter.state, letter.attempts, letter.replays, letter.reason)


def _text(content: Any) -> str:
    return "–" if content is None else bytes(content).decode(errors="backslashreplace")
