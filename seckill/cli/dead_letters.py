"""Shell: `seckill dead-letters`: list, show, replay and discard the records that could not be processed.

`replay` and `discard` only print what they would do until `--yes` is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from seckill.cli.context import DONE, REFUSED, USAGE_ERROR, CommandError, start_django_on_stack
from seckill.cli.output import print_json, print_table
from seckill.messaging.service_registry import GROUPS, create_handler

dead_letters = typer.Typer(
    no_args_is_help=True, help="Records that could not be processed: list, show, replay, discard."
)


def _known_group(name: str | None) -> str | None:
    if name is not None and name not in GROUPS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(sorted(GROUPS))}")
    return name


AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Group = Annotated[str | None, typer.Option(callback=_known_group, metavar="GROUP", help="only of this group")]
Ids = Annotated[list[int] | None, typer.Argument(metavar="ID …")]
Yes = Annotated[bool, typer.Option("--yes", help="do it; without this, only print what would happen")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(dead_letters, name="dead-letters")
    app.add_typer(dead_letters, name="letters", hidden=True)  # its former name


class LetterSummary(NamedTuple):
    id: int
    group: str
    place: str
    state: str
    attempts: int
    replays: int
    reason: str


@dead_letters.command("list")
def list_letters(
    group: Group = None,
    include_closed: Annotated[bool, typer.Option("--all", help="closed ones, too")] = False,
    as_json: AsJson = False,
) -> None:
    """List the dead letters that are open."""
    start_django_on_stack()
    from seckill.messaging.dead_letters import list_dead_letters

    rows = [_summary(letter) for letter in list_dead_letters(group=group) if include_closed or _is_pending(letter)]
    if as_json:
        print_json([row._asdict() for row in rows])
    elif not rows:
        print("no dead letters")
    else:
        print_table(LetterSummary._fields, [[str(cell)[:100] for cell in row] for row in rows])


@dead_letters.command()
def show(number: Annotated[int, typer.Argument(metavar="ID")]) -> int:
    """Show everything that is known of one dead letter."""
    start_django_on_stack()
    letter = _find(number)
    if letter is None:
        return REFUSED
    for name, value in _summary(letter)._asdict().items():
        print(f"{name:9} {value}")
    print(f"{'died':9} {letter.died_at:%Y-%m-%d %H:%M:%S} UTC")
    print(f"{'key':9} {_as_text(letter.key)}")
    print(f"{'headers':9} {letter.headers}")
    print(f"{'note':9} {letter.note}")
    print(_as_text(letter.value))
    return DONE


@dead_letters.command()
def replay(
    ids: Ids = None,
    group: Group = None,
    yes: Yes = False,
    quarantined: Annotated[
        bool, typer.Option("--quarantined", help="also those whose replay has failed too often")
    ] = False,
) -> int:
    """Hand letters to their group's handler again, at their original position.

    \b
    Example:
      seckill dead-letters replay --group orders --yes
    """
    start_django_on_stack()
    from seckill.messaging import dead_letters as letters

    def attempt(letter: Any) -> object:
        if not yes:
            return letters.find_replay_obstacle(letter)
        return letters.replay(letter, create_handler(letter.group), quarantined=quarantined)

    return _for_each(ids, group, "replayed", attempt, yes=yes)


@dead_letters.command()
def discard(
    ids: Ids = None,
    group: Group = None,
    yes: Yes = False,
    because: Annotated[str, typer.Option(help="why; kept with the letter")] = "",
) -> int:
    """Give letters up: a purchase request becomes INVALID, a reservation releases its units."""
    start_django_on_stack()
    from seckill.messaging import dead_letters as letters

    def attempt(letter: Any) -> object:
        return letters.discard(letter, create_handler(letter.group), because) if yes else None

    return _for_each(ids, group, "discarded", attempt, yes=yes)


def _for_each(
    ids: list[int] | None, group: str | None, done: str, attempt: Callable[[Any], object], *, yes: bool
) -> int:
    """`attempt` returns why it failed, or None."""
    from seckill.messaging.dead_letters import list_dead_letters

    if bool(ids) == bool(group):
        raise CommandError("name letters by their ids, or all open ones of a --group", USAGE_ERROR)
    if group:
        found = [letter for letter in list_dead_letters(group=group) if _is_pending(letter)]
    else:
        found = [letter for letter in map(_find, ids or ()) if letter is not None]
    failures = 0 if group else len(ids or ()) - len(found)
    for letter in found:
        failure = attempt(letter)
        success = done if yes else f"would be {done} (--yes does it)"
        print(f"{letter.id} {letter.topic}-{letter.partition}@{letter.offset}: {failure or success}")
        failures += failure is not None
    return REFUSED if failures else DONE


def _find(number: int) -> Any:
    from seckill.messaging.models import DeadLetter

    letter = DeadLetter.objects.filter(id=number).first()
    if letter is None:
        print(f"seckill: there is no dead letter {number}", file=sys.stderr)
    return letter


def _is_pending(letter: Any) -> bool:
    return letter.state in ("open", "quarantined")


def _summary(letter: Any) -> LetterSummary:
    place = f"{letter.topic}-{letter.partition}@{letter.offset}"
    return LetterSummary(letter.id, letter.group, place, letter.state, letter.attempts, letter.replays, letter.reason)


def _as_text(content: Any) -> str:
    return "–" if content is None else bytes(content).decode(errors="backslashreplace")
