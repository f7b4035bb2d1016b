"""Shell: the project's command line. One word each; `mqcore` has a command of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="seckill", description="The flash sale and the broker it runs on.")
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    demo = words.add_parser("demo", help="start the broker, send records through it, say what was measured")
    demo.add_argument("--records", type=int, default=100_000, help="how many records to send (default: 100000)")
    chosen = parser.parse_args(arguments)

    from seckill.demo import show

    return show(records=chosen.records)
