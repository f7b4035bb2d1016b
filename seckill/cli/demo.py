"""Shell: `seckill demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, explicit_data_folder
from seckill.cli.kafka_options import Kafka, KafkaConfig, KafkaNodes, RecreateTopics, choose_cluster

FOLDER = Path("var/demo")


def add_to(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    units: Annotated[int | None, typer.Option(help="units of stock [default: 500]", show_default=False)] = None,
    buyers: Annotated[int | None, typer.Option(help="buyers in the rush [default: 3000]", show_default=False)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="a small sale: 40 units, 240 buyers")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="switch inventory's safeguards off; the report must find what breaks")
    ] = False,
    brokers: Annotated[int, typer.Option(metavar="N", help="1, or 3 of which the leader is killed")] = 1,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    kafka_nodes: KafkaNodes = None,
    recreate_topics: RecreateTopics = False,
    stay: Annotated[bool, typer.Option("--stay", help="keep everything running until Ctrl-C")] = False,
) -> int:
    """Run a whole sale with a fault in the middle, and check its books (3 minutes).

    Each demo creates a stack of its own in a new folder below --data (default: var/demo).
    """
    from dataclasses import replace

    from seckill.lab.demo.story import QUICK, DemoSize, run_demo

    given = {name: value for name, value in (("units", units), ("buyers", buyers)) if value is not None}
    size = replace(QUICK if quick else DemoSize(), **given)
    cluster = choose_cluster(kafka, kafka_config, kafka_nodes, recreate_topics=recreate_topics, brokers=brokers)
    if size.units <= 0 or size.buyers < 20:
        raise CommandError("a demo needs at least one unit and 20 buyers", USAGE_ERROR)
    return run_demo(explicit_data_folder() or FOLDER, size, unsafe=unsafe, stay=stay, brokers=brokers, kafka=cluster)
