"""Shell: the command line. Each command imports what it needs when it runs, so a broker starts fast."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

LOG_LEVELS = ("debug", "info", "warning", "error")
DESCRIPTION = "A message broker that speaks the Apache Kafka protocol."

if TYPE_CHECKING:
    from collections.abc import Callable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mqcore", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="command")

    serve = commands.add_parser("serve", help="run a broker in the foreground until SIGTERM or Ctrl-C")
    serve.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings in TOML, with Kafka's names (see docs/generated/settings.md)",
    )
    serve.add_argument("--listen", metavar="HOST:PORT", help="the same as --set listeners=PLAINTEXT://HOST:PORT")
    serve.add_argument("--data", metavar="DIR", help="the data folder; the same as --set log.dirs=DIR")
    serve.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="override one setting of the file; may be repeated",
    )
    serve.add_argument("--log-level", default="info", choices=LOG_LEVELS, help="the default is info")
    serve.set_defaults(run=_serve)

    format_ = commands.add_parser("format", help="prepare the data folder of a node of a cluster")
    format_.add_argument("--data", required=True, metavar="DIR", help="a folder that does not exist or is empty")
    format_.add_argument("--cluster-id", required=True, metavar="ID", help="the same for all nodes")
    format_.add_argument("--node-id", type=int, required=True, metavar="N", help="as in controller.quorum.voters")
    format_.add_argument("--founder", action="store_true", help="for exactly one node of a new cluster")
    format_.set_defaults(run=_format)

    dump = commands.add_parser("dump", help="print the content of segments, indexes and snapshots")
    dump.add_argument("path", nargs="+", help="files, or folders of partitions")
    dump.add_argument("--records", action="store_true", help="print every record, not only the batches")
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
    dump.set_defaults(run=_dump)

    doctor = commands.add_parser("doctor", help="check a data folder; changes nothing without --cut")
    doctor.add_argument("data", help="the data folder; stop its broker first if you use --cut")
    doctor.add_argument(
        "--cut",
        metavar="PARTITION",
        help="cut the log of this partition where its corruption begins; the cut part is kept in .cut files",
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object per line")
    doctor.set_defaults(run=_doctor)
    _add_cluster_commands(commands)
    return parser


def _add_cluster_commands(commands: Commands) -> None:
    cluster = commands.add_parser("cluster", help="run three brokers on this machine until SIGTERM or Ctrl-C")
    cluster.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder for all data folders")
    cluster.add_argument("--brokers", type=int, default=3, choices=[1, 3], help="the default is 3")
    cluster.add_argument(
        "--listen",
        default="127.0.0.1:9092",
        metavar="HOST:PORT",
        help="for clients of the first broker; the others take the ports behind it (default 127.0.0.1:9092)",
    )
    cluster.add_argument(
        "--controller-port",
        type=int,
        default=9192,
        metavar="PORT",
        help="of the first controller; the others take the ports behind it (default 9192)",
    )
    cluster.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all brokers")
    cluster.add_argument("--log-level", default="info", choices=LOG_LEVELS, help="the default is info")
    cluster.set_defaults(run=_cluster)

    quorum = commands.add_parser("quorum", help="show the controllers, or adopt one with a new folder")
    quorum_commands = quorum.add_subparsers(required=True, metavar="command")
    describe = quorum_commands.add_parser("describe", help="the leader, the voters and how far each of them is")
    adopt = quorum_commands.add_parser("adopt", help="make a voter of a node that lost its folder")
    adopt.add_argument("--node-id", type=int, required=True, metavar="N")
    describe.set_defaults(run=_describe_quorum)
    adopt.set_defaults(run=_adopt)

    topics = commands.add_parser("topics", help="show all partitions, their leaders and their replicas")
    topics.add_argument("--watch", action="store_true", help="show them again each second until Ctrl-C")
    topics.set_defaults(run=_topics)
    for command in (describe, adopt, topics):
        command.add_argument(
            "--bootstrap-server",
            required=True,
            metavar="HOST:PORT[,…]",
            help="brokers of the cluster; the first that can be reached is asked",
        )


def _serve(options: argparse.Namespace) -> int:
    gc.disable()  # until the broker has started: what the start makes stays alive, so there is nothing to collect

    from mqcore import logs
    from mqcore.config import parse_config
    from mqcore.config_values import BadConfig
    from mqcore.topic_defaults import check_default

    logs.log_to_stderr(options.log_level)
    overrides = [f"listeners=PLAINTEXT://{options.listen}"] if options.listen else []
    overrides += [f"log.dirs={options.data}"] if options.data else []
    overrides += options.set
    try:
        text = options.config.read_text(encoding="utf-8") if options.config else ""
        config = parse_config(text, overrides, check_default)
    except OSError as error:
        return _fail(f"{options.config} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _fail(
            f"{options.config} must be UTF-8, found byte {error.object[error.start]:#04x} at position {error.start}"
        )
    except BadConfig as error:
        return _fail(str(error))

    import asyncio
    import signal

    import uvloop

    from mqcore.broker import Broker
    from mqcore.data_folder import ForeignFolder
    from mqcore.disk.lock import DirectoryLocked
    from mqcore.host import SystemNetwork, real_world
    from mqcore.metadata_log import CannotStart
    from mqcore.server.listeners import CannotListen, refuse_public_listeners

    os.umask(0o077)  # only the broker's own account may read records

    async def run() -> int:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            refuse_public_listeners(config, SystemNetwork())  # before `real_world` creates the data folder
            broker = Broker(config, real_world(config.log_dirs))
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stopped.set)
            broker.failed.add_done_callback(lambda _: stopped.set())
            start = asyncio.create_task(broker.start())  # a broker of several may wait for the others
            await asyncio.wait([start, asyncio.create_task(stopped.wait())], return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                start.result()
            start.cancel()
            gc.enable()
            gc.freeze()  # objects from the start stay alive, so later collections (and their pauses) can skip them
        except (DirectoryLocked, ForeignFolder, CannotListen, CannotStart) as error:
            return _fail(str(error))
        except OSError as error:
            return _fail(f"the data folder {config.log_dirs} cannot be used: {error}")
        await stopped.wait()
        await broker.stop()
        return _fail(broker.failed.result()) if broker.failed.done() else 0

    return uvloop.run(run())


def _format(options: argparse.Namespace) -> int:
    from mqcore.formatting import run_format

    return run_format(options.data, options.cluster_id, options.node_id, founder=options.founder)


def _dump(options: argparse.Namespace) -> int:
    from mqcore.log import dump

    return dump.dump_files(options.path, options.records, options.json)


def _doctor(options: argparse.Namespace) -> int:
    from mqcore.log import doctor

    return doctor.run_doctor(options.data, options.cut, options.json)


def _cluster(options: argparse.Namespace) -> int:
    from mqcore.cli import cluster
    from mqcore.config_values import BadConfig, host_and_port

    try:
        host, port = host_and_port(options.listen, "--listen")
    except BadConfig as error:
        return _fail(str(error))
    nodes = cluster.plan(options.data, options.brokers, host, port, options.controller_port)
    return cluster.run(nodes, options.set, options.log_level)


def _describe_quorum(options: argparse.Namespace) -> int:
    from mqcore.cli import quorum

    return _ask(lambda: quorum.describe(options.bootstrap_server))


def _adopt(options: argparse.Namespace) -> int:
    from mqcore.cli import quorum

    return _ask(lambda: quorum.adopt(options.bootstrap_server, options.node_id))


def _topics(options: argparse.Namespace) -> int:
    from mqcore.cli import topics

    return _ask(lambda: topics.show(options.bootstrap_server, options.watch))


def _ask(command: Callable[[], int]) -> int:
    from mqcore.cli.client import ClientError

    try:
        return command()
    except ClientError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _fail(message: str) -> int:
    print(f"mqcore: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
