"""Shell: `seckill faults`: break a running sale on purpose, and let the report judge the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seckill.cli.context import explicit_data_folder
from seckill.cli.kafka_options import Kafka, KafkaConfig, KafkaNodes, RecreateTopics, choose_cluster

FOLDER, SOAK_FOLDER = Path("var/faults"), Path("var/soak")
FIRST_PORT = 25_000

faults = typer.Typer(no_args_is_help=True, help="Break a running sale on purpose, and let the report judge the result.")
Seed = Annotated[int, typer.Option(help="seed of everything random")]
FirstPort = Annotated[int, typer.Option(metavar="N", help="use ports from this one on")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(faults, name="faults")


@faults.command("list")
def list_cases(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List every case, what it needs and which verdict the report must reach."""
    from seckill.cli import fault_runs

    fault_runs.list_cases(as_json=as_json)


@faults.command()
def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME …", help="names or numbers of cases, or `all`")],
    brokers: Annotated[int, typer.Option(metavar="N", help="1, or 3, which some cases need")] = 1,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    kafka_nodes: KafkaNodes = None,
    recreate_topics: RecreateTopics = False,
    resume: Annotated[bool, typer.Option("--resume", help="skip the cases that have succeeded in this folder")] = False,
    seed: Seed = 1,
    scale: Annotated[float, typer.Option(metavar="F", help="multiply buyers and units by this")] = 1.0,
    together: Annotated[
        int, typer.Option(metavar="N", help="cases that share one report: quicker, but they share its findings, too")
    ] = 1,
    first_port: FirstPort = FIRST_PORT,
    write: Annotated[
        Path | None, typer.Option(metavar="STEM", help="also write the results as STEM.md and STEM.json")
    ] = None,
) -> int:
    """Run cases, each on a stack of its own below --data (default: var/faults).

    Exits with 0 if all behaved as expected.

    \b
    Example:
      seckill faults run 41 42 --write results
      seckill faults run 7a 7b --brokers 3
      seckill faults run all --kafka-nodes var/kafka
    """
    from seckill.cli import fault_runs

    cluster = choose_cluster(kafka, kafka_config, kafka_nodes, recreate_topics=recreate_topics, brokers=brokers)
    return fault_runs.run_cases(
        names, explicit_data_folder() or FOLDER, brokers=brokers, kafka=cluster, resume=resume, seed=seed, scale=scale,
        together=together, first_port=first_port, write=write,
    )  # fmt: skip


@faults.command()
def soak(
    minutes: Annotated[float, typer.Option(metavar="N", help="how long")] = 30.0,
    seed: Seed = 1,
    first_port: FirstPort = FIRST_PORT,
    write: Annotated[
        Path | None, typer.Option(metavar="STEM", help="also write verdicts and curves as STEM.md and STEM.svg")
    ] = None,
) -> int:
    """Run sale after sale under kills and freezes, in a new folder (default: var/soak).

    Exits with 0 if the report passes and nothing grows.
    """
    from seckill.cli import fault_runs

    return fault_runs.run_soak(
        minutes, explicit_data_folder() or SOAK_FOLDER, seed=seed, first_port=first_port, write=write
    )
