"""Shell: the commands that start, watch and stop a stack: up, stop, kill, start, scale, status, down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, data_folder
from seckill.cli.kafka_options import Kafka, KafkaConfig

Name = Annotated[str, typer.Argument(metavar="NAME", help="a service or one of its processes, as in `seckill status`")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def add_to(app: typer.Typer) -> None:
    for command in (up, stop, kill, start, scale, status, down):
        app.command()(command)


def up(
    port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="another port for postgres, redis, broker, controller, gateway, provider, sinks"
        ),
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE=N", help="the number of processes of a service")
    ] = None,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    brokers: Annotated[int, typer.Option(metavar="N", help="1, or 3 that copy every record")] = 1,
    empty: Annotated[bool, typer.Option("--empty", help="create no first sale and no operator account")] = False,
) -> int:
    """Start everything on this machine with an open sale, and watch it; Ctrl-C stops it in order.

    \b
    Examples:
      seckill up
      seckill up --port gateway=8080 --scale inventory=4
      seckill up --brokers 3
      seckill up --kafka kafka-1:9093,kafka-2:9093 --kafka-config client.properties
    """
    from seckill.config.environment import check_variables

    check_variables()  # before anything is written into the folder
    from seckill.stack.mqcore_brokers import CLUSTER_SIZES
    from seckill.stack.up import up as start_stack

    if brokers not in CLUSTER_SIZES:
        raise CommandError(f"--brokers must be 1 or 3, got {brokers}", USAGE_ERROR)
    ports, counts = _numbers_by_name(port or ()), _numbers_by_name(scale or ())
    return start_stack(data_folder(), ports, counts, kafka, brokers=brokers, empty=empty, kafka_config=kafka_config)


def stop(name: Name) -> int:
    """Stop a service or one of its processes (inventory, inventory.1); it stays down."""
    return _send_command("stop", {"name": name})


def kill(name: Name) -> int:
    """Kill a service or one of its processes with SIGKILL; the supervisor restarts it."""
    return _send_command("kill", {"name": name})


def start(
    name: Name,
    variables: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME=VALUE", help="set a variable for it, e.g. SECKILL_FAULT=…:once"),
    ] = None,
) -> int:
    """Start what was stopped."""
    pairs = dict(text.partition("=")[::2] for text in variables or ())
    return _send_command("start", {"name": name, "with": pairs})


def scale(
    service: Annotated[str, typer.Argument(metavar="SERVICE")], count: Annotated[int, typer.Argument(metavar="N")]
) -> int:
    """Change the number of processes of a service."""
    return _send_command("scale", {"service": service, "count": count})


def status(as_json: AsJson = False) -> int:
    """Show what runs."""
    return _send_command("status", as_json=as_json)


def down(as_json: AsJson = False) -> int:
    """Stop a running stack."""
    return _send_command("down", as_json=as_json)


def _send_command(command: str, arguments: Mapping[str, object] | None = None, *, as_json: bool = False) -> int:
    from seckill.stack.up import send_command

    return send_command(data_folder(), {"command": command, **(arguments or {})}, as_json=as_json)


def _numbers_by_name(texts: Sequence[str]) -> dict[str, int]:
    numbers = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdigit():
            raise CommandError(f"{text!r} must be NAME=NUMBER", USAGE_ERROR)
        numbers[name] = int(number)
    return numbers
