"""Shell: the project's command line. One word each; `mqcore` has a command of its own."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seckill import money, operating, rewiring
from seckill.audit import command as auditing

GROUPS = {
    "inventory": "inventory.handlers:PurchaseRequests",
    "inventory.settlement": "inventory.handlers:OrderEvents",
    "orders": "orders.handlers:Decisions",
    "gateway.outcomes": "gateway.handlers:Outcomes",
    "notify.sms": "notifications.handlers:Sms",
    "notify.email": "notifications.handlers:Email",
    "notify.push": "notifications.handlers:Push",
}
SWEEPS = {
    "inventory": "inventory.beat:sweep",
    "orders": "orders.duties:sweep",
    "notifications": "notifications.sweep:sweep",
}
METRICS = {"orders": "orders.metrics:FAMILIES", "notifications": "notifications.metrics:FAMILIES"}
RELAYS = {"inventory": ("inventory",), "orders": ("orders", "letters")}  # whose outbox rows each publishes
OWN = {  # words with words and exit codes of their own
    "report": "seckill.consistency.command:main",
    "faults": "seckill.faults.command:main",
    "stats": "analytics.command:main",
}
DATA = Path("var/stack")


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in OWN:
        return int(_named(OWN[words[0]])(words[1:]))
    chosen = _parser().parse_args(words)
    return int(chosen.run(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="seckill", description="The flash sale and the broker it runs on.")
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")

    demo = words.add_parser("demo", help="a sale from nothing to a verdict, with a fault in the middle (3 minutes)")
    demo.add_argument("--units", type=int, help="of stock (default: 500)")
    demo.add_argument("--buyers", type=int, help="(default: 3000)")
    demo.add_argument("--quick", action="store_true", help="a small one: 40 units, 240 buyers")
    demo.add_argument("--unsafe", action="store_true", help="with the guards off: the report must find what breaks")
    demo.add_argument("--stay", action="store_true", help="keep everything running afterwards, until Ctrl-C")
    demo.add_argument("--data", type=Path, default=Path("var/demo"), help="a folder in it is made for each demo")
    demo.set_defaults(run=_demo)

    up = words.add_parser("up", help="start everything on this machine and watch it; Ctrl-C stops it in order")
    up.add_argument("--port", action="append", default=[], metavar="NAME=N", help="another port for a server")
    up.add_argument("--scale", action="append", default=[], metavar="SERVICE=N", help="so many processes of a service")
    up.add_argument("--kafka", metavar="HOST:PORT", help="use this Kafka cluster instead of mqcore")
    up.set_defaults(run=_up)

    for word, text in {
        "stop": "stop a service or one instance of it (inventory, inventory.1); it stays down",
        "kill": "kill -9 it; it comes back by itself",
        "start": "start what was stopped",
    }.items():
        one = words.add_parser(word, help=text)
        one.add_argument("name")
        one.set_defaults(run=_tell)
    words.choices["start"].add_argument(
        "--with", action="append", metavar="NAME=VALUE", help="a variable of its own, e.g. SECKILL_FAULT=…:once"
    )
    scale = words.add_parser("scale", help="run a service so many times")
    scale.add_argument("service")
    scale.add_argument("count", type=int)
    scale.set_defaults(run=_tell)
    for word, text in {"status": "what runs", "down": "stop a running stack"}.items():
        plain = words.add_parser(word, help=text)
        plain.add_argument("--json", action="store_true")
        plain.set_defaults(run=_tell)
    for word in ("up", "stop", "kill", "start", "scale", "status", "down"):
        words.choices[word].add_argument(
            "--data", type=Path, default=DATA, help=f"folder of the stack (default: {DATA})"
        )

    operating.add_words(words, sorted(GROUPS), DATA)
    words.choices["lag"].set_defaults(run=_lag)
    words.choices["letters"].set_defaults(run=_letters)
    auditing.add_words(words, DATA)
    words.choices["audit"].set_defaults(run=_audit)
    money.add_words(words, DATA)
    words.choices["refund"].set_defaults(run=_refund)
    words.choices["reconcile"].set_defaults(run=_reconcile)
    rewiring.add_words(words, DATA)
    words.choices["slots"].set_defaults(run=_slots)
    words.choices["switch"].set_defaults(run=_switch)
    manage = words.add_parser("manage", help="a command of Django's (migrate, sale, shell, …) on a stack's servers")
    manage.add_argument("--data", type=Path, default=DATA)
    manage.add_argument("words", nargs=argparse.REMAINDER)
    manage.set_defaults(run=_manage)

    consume = words.add_parser("consume", help="run one consumer of a group, in the foreground")
    consume.add_argument("group", choices=sorted(GROUPS))
    consume.set_defaults(run=_consume)
    relay = words.add_parser("relay", help="publish a service's outbox, in the foreground")
    relay.add_argument("writer", choices=sorted(RELAYS))
    relay.set_defaults(run=_relay)
    sweep = words.add_parser("sweep", help="do what is due in a service, again and again, in the foreground")
    sweep.add_argument("service", choices=sorted(SWEEPS))
    sweep.add_argument("--metrics-port", type=int, metavar="N", help="show the service's metrics there, for Prometheus")
    sweep.add_argument("--metrics-host", default="127.0.0.1", metavar="ADDRESS")
    sweep.set_defaults(run=_sweep)
    words.add_parser("report", help="do the books of a run agree? exit 0 PASS, 1 FAIL, 2 UNKNOWN, 3 the tool failed")
    words.add_parser("faults", help="break a running sale in every way we know, and ask the books")
    words.add_parser("stats", help="statistics from the topics, by Spark: fetch, live, replay, report")
    topics = words.add_parser("topics", help="make the topics that are absent, and the table of slots")
    topics.set_defaults(run=_topics)
    return parser


# ── the stack ────────────────────────────────────────────────────────────────────────────────────


def _demo(chosen: argparse.Namespace) -> int:
    from dataclasses import replace

    from seckill.demo.story import QUICK, Size, play

    given = {name: value for name in ("units", "buyers") if (value := getattr(chosen, name)) is not None}
    size = replace(QUICK if chosen.quick else Size(), **given)
    if size.units <= 0 or size.buyers < 20:
        raise SystemExit("seckill: a demo needs units, and a crowd of 20 at least")
    return play(chosen.data, size, unsafe=chosen.unsafe, stay=chosen.stay)


def _up(chosen: argparse.Namespace) -> int:
    from seckill.stack.up import up

    return up(chosen.data, _pairs(chosen.port), _pairs(chosen.scale), chosen.kafka)


def _tell(chosen: argparse.Namespace) -> int:
    from seckill.stack.up import tell

    order = {
        name: value for name, value in vars(chosen).items() if name not in ("run", "data", "json") and value is not None
    }
    if "with" in order:
        order["with"] = dict(text.partition("=")[::2] for text in order["with"])
    return tell(chosen.data, order, as_json=getattr(chosen, "json", False))


def _pairs(texts: Sequence[str]) -> dict[str, int]:
    pairs = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdigit():
            raise SystemExit(f"seckill: {text!r} is not NAME=NUMBER")
        pairs[name] = int(number)
    return pairs


# ── processes of the stack ───────────────────────────────────────────────────────────────────────


def _django(data: Path | None = None) -> str:
    """Set Django up, for the stack in this folder if there is one; the address of the broker."""
    if data is not None:
        _adopt(data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    import django
    from django.conf import settings

    from seckill import logs

    logs.to_stderr()
    django.setup()
    return str(settings.ENVIRONMENT.kafka_bootstrap_servers)


def _adopt(data: Path) -> None:
    """Take the addresses of the stack in this folder, except where the environment names others."""
    path = data / "run" / "environment.json"
    if path.exists():
        for name, value in json.loads(path.read_text()).items():
            os.environ.setdefault(name, value)


def _named(path: str) -> Any:
    """The object that "package.module:name" names."""
    import importlib

    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _until_told(worker: Any) -> int:
    """Run a worker of ours; SIGTERM and Ctrl-C let it finish what it is at."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()
    return 0


def _consume(chosen: argparse.Namespace) -> int:
    bootstrap = _django()
    from seckill.streams.loop import Loop

    name = os.environ.get("SECKILL_STACK_NAME", f"{chosen.group}.{os.getpid()}")
    return _until_told(Loop(_named(GROUPS[chosen.group])(), bootstrap, name))


def _relay(chosen: argparse.Namespace) -> int:
    bootstrap = _django()
    from seckill.streams.relay import Relay

    return _until_told(Relay(RELAYS[chosen.writer], bootstrap))


def _sweep(chosen: argparse.Namespace) -> int:
    _django()
    if chosen.metrics_port is not None:
        _show_metrics(chosen)
    return _until_told(_named(SWEEPS[chosen.service])())


def _show_metrics(chosen: argparse.Namespace) -> None:
    from seckill.metrics import serve

    if chosen.service not in METRICS:
        raise SystemExit(f"seckill: {chosen.service} has no metrics; those of {', '.join(METRICS)} can be shown")
    try:
        serve(chosen.metrics_host, chosen.metrics_port, _named(METRICS[chosen.service]))
    except OSError as fault:
        raise SystemExit(f"seckill: --metrics-port {chosen.metrics_port}: {fault.strerror}") from fault


def _lag(chosen: argparse.Namespace) -> int:
    return operating.lag(chosen, _django(chosen.data))


def _letters(chosen: argparse.Namespace) -> int:
    _django(chosen.data)
    return operating.letters(chosen, lambda group: _named(GROUPS[group])())


def _operate(chosen: argparse.Namespace, word: Callable[[argparse.Namespace], int]) -> int:
    """An operator's word; 3 if the stack's database is not there to hear it."""
    _django(chosen.data)
    from django.db import OperationalError

    try:
        return word(chosen)
    except OperationalError as fault:
        print(f"seckill: the database cannot be asked (is the stack up?): {fault}".strip(), file=sys.stderr)
        return 3


def _audit(chosen: argparse.Namespace) -> int:
    return _operate(chosen, auditing.audit)


def _refund(chosen: argparse.Namespace) -> int:
    return _operate(chosen, money.refund)


def _reconcile(chosen: argparse.Namespace) -> int:
    return _operate(chosen, money.reconcile)


def _slots(chosen: argparse.Namespace) -> int:
    return rewiring.slots(chosen, _django(chosen.data))


def _switch(chosen: argparse.Namespace) -> int:
    _django(chosen.data)
    return rewiring.switch(chosen)


def _manage(chosen: argparse.Namespace) -> int:
    _adopt(chosen.data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["seckill manage", *chosen.words])
    return 0


def _topics(chosen: argparse.Namespace) -> int:
    return rewiring.make_topics(_django())


if __name__ == "__main__":
    sys.exit(main())
