"""Shell: the command line: `mqcore serve`, `mqcore dump`, `mqcore doctor`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

DESCRIPTION = "A message broker that speaks the Apache Kafka protocol."


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mqcore", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="command")

    serve = commands.add_parser("serve", help="run a broker in the foreground, until SIGTERM or Ctrl-C")
    serve.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, by Kafka's names")
    serve.add_argument("--listen", metavar="HOST:PORT", help="short for --set listeners=PLAINTEXT://HOST:PORT")
    serve.add_argument("--data", metavar="DIR", help="short for --set log.dirs=DIR")
    serve.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one setting; may be repeated")
    serve.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    serve.set_defaults(run=_serve)

    dump = commands.add_parser("dump", help="print segments, indexes and snapshots in words")
    dump.add_argument("path", nargs="+", help="files, or folders of partitions")
    dump.add_argument("--records", action="store_true", help="each record, not only its batch")
    dump.add_argument("--json", action="store_true", help="one JSON object a line")
    dump.set_defaults(run=_dump)

    doctor = commands.add_parser("doctor", help="check a data folder without changing it")
    doctor.add_argument("data", help="the data folder; its broker must be stopped")
    doctor.add_argument("--cut", metavar="PARTITION", help="cut this partition's log where its corruption begins")
    doctor.add_argument("--json", action="store_true", help="one JSON object a line")
    doctor.set_defaults(run=_doctor)
    return parser


def _serve(options: argparse.Namespace) -> int:
    from mqcore import logs
    from mqcore.config import BadConfig, read
    from mqcore.settings import check_default

    logs.to_stderr(options.log_level)
    overrides = [f"listeners=PLAINTEXT://{options.listen}"] if options.listen else []
    overrides += [f"log.dirs={options.data}"] if options.data else []
    overrides += options.set
    try:
        text = options.config.read_text(encoding="utf-8") if options.config else ""
        config = read(text, overrides, check_default)
    except OSError as error:
        return _wrong(f"{options.config} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return _wrong(f"{options.config} is not UTF-8: byte {error.object[error.start]:#04x} at position {error.start}")
    except BadConfig as error:
        return _wrong(str(error))

    import uvloop

    from mqcore.broker import Broker, CannotStart
    from mqcore.disk.lock import DirectoryLocked
    from mqcore.meta import ForeignFolder
    from mqcore.server.doors import CannotListen

    os.umask(0o077)  # records are for the broker's own account

    async def run() -> int:
        try:
            broker = Broker(config)
            await broker.start()
            gc.freeze()  # what a start has made stays: later collections, and pauses, need not look at it
        except (DirectoryLocked, ForeignFolder, CannotListen, CannotStart) as error:
            return _wrong(str(error))
        except OSError as error:
            return _wrong(f"the data folder {config.log_dirs} cannot be used: {error}")
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        broker.failed.add_done_callback(lambda _: stopped.set())
        await stopped.wait()
        await broker.stop()
        return _wrong(broker.failed.result()) if broker.failed.done() else 0

    return uvloop.run(run())


def _dump(options: argparse.Namespace) -> int:
    from mqcore.log import dump

    return dump.run(options.path, options.records, options.json)


def _doctor(options: argparse.Namespace) -> int:
    from mqcore.log import doctor

    return doctor.run(options.data, options.cut, options.json)


def _wrong(message: str) -> int:
    print(f"mqcore: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
