"""Shell: `seckill lag`: how far behind the consumer groups are."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from seckill.cli.context import DONE, REFUSED, start_django_on_stack
from seckill.cli.output import print_json, print_table


def add_to(app: typer.Typer) -> None:
    app.command()(lag)


def lag(
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    alarm: Annotated[
        int | None, typer.Option(metavar="RECORDS", help="exit with 1 if a group is further behind than this")
    ] = None,
) -> int:
    """Show how far behind each consumer group is, what is unpublished, and how many dead letters are open."""
    bootstrap_servers = start_django_on_stack()
    from django.db.models import Count

    from seckill.messaging.lag import measure_lag
    from seckill.messaging.models import DeadLetter, OutboxRow
    from seckill.messaging.topics import TOPICS

    lags = measure_lag(bootstrap_servers, TOPICS.values())
    unpublished = dict(OutboxRow.objects.values_list("writer").annotate(Count("id")).order_by())
    dead = DeadLetter.objects.filter(state=DeadLetter.State.OPEN).count()
    if as_json:
        print_json({"groups": [each._asdict() for each in lags], "outbox": unpublished, "dead_letters": dead})
    else:
        print_table(
            ("group", "topic", "behind", "partitions behind"),
            [(each.group, each.topic, f"{each.records:,}", each.partitions or "") for each in lags],
        )
        print(f"unpublished: {unpublished or 'nothing'}; open dead letters: {dead}")
    late = [each for each in lags if alarm is not None and each.records > alarm]
    for each in late:
        print(f"seckill: {each.group} is {each.records:,} records behind in {each.topic}", file=sys.stderr)
    return REFUSED if late else DONE
