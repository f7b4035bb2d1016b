"""Shell: `python -m loadtest.rush --url http://127.0.0.1:8000 --sale 1 --buyers 1000 --log FOLDER/rush.jsonl`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from loadtest.characters import FARM, FLOOD, Mixture
from loadtest.ledger import ClientLog, declare
from loadtest.rush.crowd import Plan, rush
from loadtest.strain import WARNING


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.rate is not None and chosen.rate <= 0:
        parser.error("--rate is a number of arrivals a second, above zero")
    if chosen.log.exists():
        print(f"{chosen.log} is there already: evidence is not written over", file=sys.stderr)
        return 2
    mixture = Mixture(**{field.name: getattr(chosen, field.name) for field in fields(Mixture)})
    plan = Plan(
        chosen.url, chosen.sale, chosen.buyers, mixture, chosen.over, chosen.rate, chosen.patience, chosen.connections,
        chosen.prefix, chosen.seed, chosen.farms, chosen.floods,
    )  # fmt: skip
    declare(chosen.log, chosen.sale, chosen.buyers)
    log = ClientLog(chosen.log, url=chosen.url, sale=chosen.sale, buyers=chosen.buyers, seed=chosen.seed)
    began = time.monotonic()
    try:
        ends, strained = asyncio.run(rush(plan, log))
    except KeyboardInterrupt:
        print("stopped: what was under way is in the log as not answered", file=sys.stderr)
        return 130
    finally:
        log.close()
    print(f"{ends.total():,} buyers in {time.monotonic() - began:.1f} s")
    for end, count in ends.most_common():
        print(f"{count:8,}  {end}")
    print(strained)
    if strained.is_too_much:
        print(f"warning: {WARNING}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.rush", description="A crowd of buyers for one sale.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway")
    parser.add_argument("--sale", type=int, required=True)
    parser.add_argument("--buyers", type=int, default=500)
    parser.add_argument("--log", type=Path, default=Path("var/stack/evidence/rush.jsonl"), help="a new file")
    parser.add_argument("--over", type=float, default=1.0, metavar="SECONDS", help="they arrive over so long")
    parser.add_argument(
        "--rate", type=float, metavar="R", help="instead: so many arrivals a second, whatever became of those before"
    )
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help="then they go home")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--prefix", default="buyer-", help="of their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--farms", type=int, default=0, metavar="N", help=f"bots: each {FARM.accounts} accounts at one address"
    )
    parser.add_argument(
        "--floods", type=int, default=0, metavar="N", help=f"bots: each one account with {FLOOD.keys} requests"
    )
    shares = {
        "double_click": "who click twice at once",
        "greedy": "who try a second purchase",
        "storm": "who click four times and wait for nothing",
        "pay": "of those served",
        "cancel": "of those served; the rest walk away",
    }
    for share, text in shares.items():
        default = Mixture.__dataclass_fields__[share].default
        parser.add_argument(
            f"--{share.replace('_', '-')}", type=float, default=default, metavar="SHARE", help=f"{text} ({default})"
        )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
