"""Shell: the words that are processes of a stack (consume, relay, sweep) or done before one starts (topics, manage)."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

from seckill.garbage import settle_down
from seckill.reaching import adopt, named, stack_words, start_django

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
METRICS = {
    "inventory": "inventory.metrics:FAMILIES",
    "orders": "orders.metrics:FAMILIES",
    "notifications": "notifications.metrics:FAMILIES",
}
RELAYS = {"inventory": ("inventory",), "orders": ("orders", "letters")}  # whose outbox rows each publishes


def add_words(words: Any) -> None:
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
    topics = words.add_parser("topics", help="make the topics that are absent, and the table of slots")
    topics.set_defaults(run=_topics)
    manage = words.add_parser(
        "manage", help="a command of Django's (migrate, sale, shell, …) on a stack's servers", parents=[stack_words()]
    )
    manage.add_argument("words", nargs=argparse.REMAINDER)
    manage.set_defaults(run=_manage)


def handler(group: str) -> Any:
    """A new handler of a group."""
    return named(GROUPS[group])()


def _until_told(worker: Any) -> int:
    """Run a worker of ours; SIGTERM and Ctrl-C let it finish what it is at."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    settle_down()
    worker.run()
    return 0


def _start_service() -> str:
    """Django for a process that runs for long; the address of the broker."""
    from seckill.database import BATCH_STATEMENT_MS

    os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(BATCH_STATEMENT_MS))
    return start_django()


def _consume(chosen: argparse.Namespace) -> int:
    bootstrap = _start_service()
    from seckill.streams.loop import Loop

    name = os.environ.get("SECKILL_STACK_NAME", f"{chosen.group}.{os.getpid()}")
    return _until_told(Loop(handler(chosen.group), bootstrap, name))


def _relay(chosen: argparse.Namespace) -> int:
    bootstrap = _start_service()
    from seckill.streams.relay import Relay

    return _until_told(Relay(RELAYS[chosen.writer], bootstrap))


def _sweep(chosen: argparse.Namespace) -> int:
    _start_service()
    if chosen.metrics_port is not None:
        _show_metrics(chosen)
    return _until_told(named(SWEEPS[chosen.service])())


def _show_metrics(chosen: argparse.Namespace) -> None:
    from seckill.metrics import serve

    if chosen.service not in METRICS:
        raise SystemExit(f"seckill: {chosen.service} has no metrics; those of {', '.join(METRICS)} can be shown")
    try:
        serve(chosen.metrics_host, chosen.metrics_port, named(METRICS[chosen.service]))
    except OSError as fault:
        raise SystemExit(f"seckill: --metrics-port {chosen.metrics_port}: {fault.strerror}") from fault


def _topics(chosen: argparse.Namespace) -> int:
    from seckill.rewiring import make_topics

    return make_topics(start_django())


def _manage(chosen: argparse.Namespace) -> int:
    adopt(chosen.data)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(["seckill manage", *chosen.words])
    return 0
