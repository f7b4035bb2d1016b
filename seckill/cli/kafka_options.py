"""Shell: the options that name a Kafka cluster for an experiment, shared by `demo` and `faults run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError

if TYPE_CHECKING:
    from seckill.lab.kafka_target import KafkaTarget

Kafka = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,…", help="use this Kafka cluster instead of mqcore", show_default=False)
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="its client.properties, with a login for each service", show_default=False),
]
KafkaNodes = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", show_default=False,
                 help="the cluster of `python -m loadtest.kafka_cluster` there; its brokers may be stopped"),
]  # fmt: skip
RecreateTopics = Annotated[
    bool, typer.Option("--recreate-topics", help="delete the sale's topics in that cluster, with all records, first")
]


def use_cluster(kafka: str | None, config: Path | None, service: str | None) -> None:
    """The clients of this process connect there, as this service, or as the operator; options win over the environment
    and the stack."""
    import os

    from seckill.config.kafka_clients import replace_login
    from seckill.config.kafka_properties import read_kafka_config

    if config is not None:
        found = read_kafka_config(config)
        replace_login(found.variables_of(service))
        kafka = kafka or found.bootstrap_servers
    if kafka:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = kafka


def choose_cluster(
    kafka: str | None, config: Path | None, nodes: Path | None, *, recreate_topics: bool, brokers: int
) -> KafkaTarget | None:
    """The cluster that the options name, or None for mqcore. Without one, no login of this shell is used either."""
    from seckill.config.kafka_clients import replace_login
    from seckill.lab.kafka_target import choose_kafka
    from seckill.stack.mqcore_brokers import CLUSTER_SIZES

    if brokers not in CLUSTER_SIZES:
        raise CommandError(f"--brokers must be 1 or 3, got {brokers}", USAGE_ERROR)
    chosen = choose_kafka(kafka, config, nodes, may_delete=recreate_topics)
    if chosen is None and (config or recreate_topics):
        raise CommandError("--kafka HOST:PORT is missing, and the file has no bootstrap.servers", USAGE_ERROR)
    if chosen is not None and brokers > 1:
        raise CommandError("--brokers is the number of mqcore's brokers; with --kafka there are none", USAGE_ERROR)
    if chosen is None:
        replace_login({})
    return chosen
