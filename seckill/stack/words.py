"""Shell: the words of the stack: up, stop, kill, start, scale, status, down."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from seckill.reaching import stack_words


def add_words(words: Any) -> None:
    where = stack_words()
    up = words.add_parser(
        "up", help="start everything on this machine and watch it; Ctrl-C stops it in order", parents=[where]
    )
    up.add_argument(
        "--port",
        action="append",
        default=[],
        metavar="NAME=N",
        help="another port for postgres, redis, broker, gateway, provider, sinks, live",
    )
    up.add_argument("--scale", action="append", default=[], metavar="SERVICE=N", help="so many processes of a service")
    up.add_argument("--kafka", metavar="HOST:PORT", help="use this Kafka cluster instead of mqcore")
    up.set_defaults(run=_up)
    for word, text in {
        "stop": "stop a service or one instance of it (inventory, inventory.1); it stays down",
        "kill": "kill -9 it; it comes back by itself",
        "start": "start what was stopped",
    }.items():
        one = words.add_parser(word, help=text, parents=[where])
        one.add_argument(
            "name", metavar="NAME", help="of a service, or of one process of it: `seckill status` lists them"
        )
        one.set_defaults(run=_tell)
    words.choices["start"].add_argument(
        "--with", action="append", metavar="NAME=VALUE", help="a variable of its own, e.g. SECKILL_FAULT=…:once"
    )
    scale = words.add_parser("scale", help="run a service so many times", parents=[where])
    scale.add_argument("service", metavar="SERVICE")
    scale.add_argument("count", metavar="N", type=int)
    scale.set_defaults(run=_tell)
    for word, text in {"status": "what runs", "down": "stop a running stack"}.items():
        plain = words.add_parser(word, help=text, parents=[where])
        plain.add_argument("--json", action="store_true", help="for programs")
        plain.set_defaults(run=_tell)


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
