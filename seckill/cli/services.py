"""Shell: the processes of a stack (`consume`, `relay`, `sweep`) and what must run once before them (`topics`)."""

from __future__ import annotations

import os
import signal
from enum import Enum
from typing import Annotated, Any

import typer

from seckill.cli.context import UNAVAILABLE, USAGE_ERROR, CommandError, explicit_data_folder, start_django
from seckill.messaging.service_registry import GROUPS, METRICS, RELAYS, SWEEPS, create_handler, load_object

Group = Enum("Group", {name: name for name in sorted(GROUPS)})  # type: ignore[misc]  # made from the registry
Writer = Enum("Writer", {name: name for name in sorted(RELAYS)})  # type: ignore[misc]
SweepName = Enum("SweepName", {name: name for name in sorted(SWEEPS)})  # type: ignore[misc]


def add_to(app: typer.Typer) -> None:
    for command in (consume, relay, sweep, topics):
        app.command()(command)


def consume(group: Annotated[Group, typer.Argument(metavar="GROUP", help=", ".join(sorted(GROUPS)))]) -> None:
    """Run one consumer of a group, in the foreground."""
    bootstrap_servers = start_service()
    from seckill.messaging.consume_loop import ConsumeLoop

    name = os.environ.get("SECKILL_STACK_NAME", f"{group.value}.{os.getpid()}")
    run_until_stopped(group.value, ConsumeLoop(create_handler(group.value), bootstrap_servers, name))


def relay(writer: Annotated[Writer, typer.Argument(metavar="WRITER", help=", ".join(sorted(RELAYS)))]) -> None:
    """Publish the outbox of a service, in the foreground. The relay of orders also publishes all dead letters."""
    bootstrap_servers = start_service()
    from seckill.messaging.relay import Relay

    run_until_stopped(f"relay.{writer.value}", Relay(RELAYS[writer.value], bootstrap_servers))


def sweep(
    service: Annotated[SweepName, typer.Argument(metavar="SERVICE", help=", ".join(sorted(SWEEPS)))],
    metrics_port: Annotated[
        int | None, typer.Option(metavar="N", help="serve the service's metrics there, for Prometheus")
    ] = None,
    metrics_host: Annotated[str, typer.Option(metavar="ADDRESS")] = "127.0.0.1",
) -> None:
    """Do what is due in a service, again and again, in the foreground."""
    start_service()
    if metrics_port is not None:
        _serve_metrics(service.value, metrics_host, metrics_port)
    run_until_stopped(f"{service.value}.sweep", load_object(SWEEPS[service.value])())


def topics(
    keep_settings: Annotated[
        bool, typer.Option("--keep-settings", help="change no existing topic, because somebody else made them")
    ] = False,
) -> None:
    """Create the topics and the slot map if they are missing, and check that Redis evicts nothing.

    Prints one line for each setting of a topic that does not fit, and what to change.
    """
    bootstrap_servers = start_django(explicit_data_folder())
    from django.conf import settings

    from seckill.messaging.redis_eviction import EvictionEnabled
    from seckill.messaging.server_setup import prepare_servers
    from seckill.messaging.topic_check import MISFIT, find_misfits
    from seckill.resilience.redis_servers import redis_servers

    try:
        redis = redis_servers(settings.ENVIRONMENT)
        created = prepare_servers(bootstrap_servers, redis, keep_settings=keep_settings)
    except EvictionEnabled as fault:
        raise CommandError(str(fault)) from fault
    print(f"created: {', '.join(created)}" if created else "all topics exist")
    for line in find_misfits(bootstrap_servers):
        print(f"{MISFIT}{line}")


def run_until_stopped(name: str, worker: Any) -> None:
    """SIGTERM and Ctrl-C let the worker finish the batch under way."""
    from seckill.config.garbage import tune_collector
    from seckill.monitoring import spans
    from seckill.monitoring.signs_of_life import signs_of_life

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    spans.start(name)
    tune_collector()
    try:
        with signs_of_life():
            worker.run()
    finally:
        spans.stop()


def start_service() -> str:
    """Set Django up for a process that runs for long; it bounds its statements. Returns the broker's address."""
    from seckill.config.database import BATCH_STATEMENT_MS

    os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(BATCH_STATEMENT_MS))
    return start_django(explicit_data_folder())


def _serve_metrics(service: str, host: str, port: int) -> None:
    from seckill.monitoring.metrics import serve

    if service not in METRICS:
        raise CommandError(f"{service} has no metrics; these have: {', '.join(METRICS)}", USAGE_ERROR)
    try:
        serve(host, port, load_object(METRICS[service]))
    except OSError as fault:
        raise CommandError(f"--metrics-port {port}: {fault.strerror}", UNAVAILABLE) from fault
