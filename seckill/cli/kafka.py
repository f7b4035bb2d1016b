"""Shell: `seckill kafka`: what the administrators of a Kafka cluster need to know, as commands of Kafka's own tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from seckill.cli.context import DONE, REFUSED, USAGE_ERROR, CommandError, data_folder, use_stack_addresses

kafka = typer.Typer(
    no_args_is_help=True, help="Your own Kafka cluster: the topics and rights that the sale needs, and a check."
)
Config = Annotated[
    str, typer.Option("--command-config", metavar="FILE", help="the administrator's client.properties, as printed")
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(kafka, name="kafka")


@kafka.command()
def acls(
    principal: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=USER", help="the user of a principal, if it has another name: gateway=sale-gw"),
    ] = None,
    address: Annotated[
        str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="as printed", show_default=False)
    ] = None,
    config: Config = "admin.properties",
) -> None:
    """Print the `kafka-acls` commands that give each service what it needs and nothing else."""
    from seckill.messaging.kafka_acls import acl_commands

    for command in acl_commands(_address(address), config, _users(principal or ())):
        print(command)


@kafka.command()
def topics(
    brokers: Annotated[int, typer.Option(metavar="N", help="how many brokers the cluster has")] = 3,
    address: Annotated[
        str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="as printed", show_default=False)
    ] = None,
    config: Config = "admin.properties",
) -> None:
    """Print the `kafka-topics` commands that create the topics, for administrators who do that themselves."""
    from seckill.messaging.kafka_cluster import new_topics

    for name, topic in new_topics(brokers).items():
        settings = [f"--config {key}={value}" for key, value in sorted(topic.topic_configs.items())]
        size = f"--partitions {topic.num_partitions} --replication-factor {topic.replication_factor}"
        words = f"kafka-topics --bootstrap-server {_address(address)} --command-config {config} --create --topic {name}"
        print(" ".join([words, size, *settings]))


@kafka.command()
def check() -> int:
    """Compare the topics of the cluster with what the sale needs. Exits with 1 if a setting does not fit."""
    use_stack_addresses(data_folder())
    from seckill.config.environment import read
    from seckill.messaging.topic_check import find_misfits

    misfits = find_misfits(read().kafka_bootstrap_servers)
    for line in misfits:
        print(line)
    if not misfits:
        print("every topic that exists fits")
    return REFUSED if misfits else DONE


def _address(given: str | None) -> str:
    from seckill.config.environment import read

    use_stack_addresses(data_folder())
    return given or read().kafka_bootstrap_servers


def _users(texts: Sequence[str]) -> dict[str, str]:
    from seckill.messaging.kafka_acls import PRINCIPALS

    users = {}
    for text in texts:
        name, separator, user = text.partition("=")
        if name not in PRINCIPALS or not separator or not user:
            raise CommandError(f"--principal must be NAME=USER, and NAME one of {', '.join(PRINCIPALS)}", USAGE_ERROR)
        users[name] = user
    return users
