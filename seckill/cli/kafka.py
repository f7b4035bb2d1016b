"""Shell: `seckill kafka`: what the administrators of a Kafka cluster need to know, as commands of Kafka's own tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from seckill.cli.context import DONE, REFUSED, USAGE_ERROR, CommandError, data_folder, use_stack_addresses
from seckill.cli.kafka_options import use_cluster

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
def check(
    address: Annotated[
        str | None,
        typer.Option("--kafka", metavar="HOST:PORT,…", show_default=False, help="check this cluster, not the stack's"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--kafka-config", metavar="FILE", show_default=False,
                     help="its client.properties, to check the rights of each service"),
    ] = None,
) -> int:  # fmt: skip
    """Compare the topics and rights of the cluster with what the sale needs.

    Exits with 1 if a setting does not fit or a right is missing. Each line says what to change.
    """
    use_cluster(address, config, None)
    use_stack_addresses(data_folder())
    from seckill.config.environment import read
    from seckill.config.kafka_properties import KafkaConfig, read_kafka_config
    from seckill.config.kafka_security import PREFIX
    from seckill.messaging.access_check import find_access_gaps
    from seckill.messaging.kafka_acls import OPERATOR, PRINCIPALS
    from seckill.messaging.topic_check import find_misfits, missing_topics

    servers = read().kafka_bootstrap_servers
    operator = KafkaConfig({name: value for name, value in os.environ.items() if name.startswith(PREFIX)})
    logins, principals = (operator, (OPERATOR,)) if config is None else (read_kafka_config(config), PRINCIPALS)
    misfits = find_misfits(servers)  # first, because it fails at once if the operator cannot log in
    lines = find_access_gaps(servers, logins, principals) + misfits
    for line in lines:
        print(line)
    if missing := missing_topics(servers):
        print(f"not there yet: {', '.join(missing)}; `seckill up` creates them if the operator may Create them")
    if not lines:
        print("every topic that exists fits, and no right is missing")
    if config is None:
        print("only the operator's rights were checked; --kafka-config FILE checks those of each service")
    return REFUSED if lines else DONE


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
