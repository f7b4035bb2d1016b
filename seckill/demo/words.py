"""Shell: the word `demo`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any


def add_words(words: Any) -> None:
    demo = words.add_parser("demo", help="a sale from nothing to a verdict, with a fault in the middle (3 minutes)")
    demo.add_argument("--units", type=int, help="of stock (default: 500)")
    demo.add_argument("--buyers", type=int, help="(default: 3000)")
    demo.add_argument("--quick", action="store_true", help="a small one: 40 units, 240 buyers")
    demo.add_argument("--unsafe", action="store_true", help="with the guards off: the report must find what breaks")
    demo.add_argument("--stay", action="store_true", help="keep everything running afterwards, until Ctrl-C")
    demo.add_argument("--data", type=Path, default=Path("var/demo"), help="a folder in it is made for each demo")
    demo.set_defaults(run=_demo)


def _demo(chosen: argparse.Namespace) -> int:
    from seckill.demo.story import QUICK, Size, play

    given = {name: value for name in ("units", "buyers") if (value := getattr(chosen, name)) is not None}
    size = replace(QUICK if chosen.quick else Size(), **given)
    if size.units <= 0 or size.buyers < 20:
        raise SystemExit("seckill: a demo needs units, and a crowd of 20 at least")
    return play(chosen.data, size, unsafe=chosen.unsafe, stay=chosen.stay)
