"""Shell: `python -m loadtest.rush --url http://127.0.0.1:8000 --sale 1 --buyers 1000 --log FOLDER/rush.jsonl`."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from loadtest.rush.buyer import Buyer, Temper
from loadtest.rush.http import Client
from loadtest.rush.log import ClientLog, declare


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.log.exists():
        print(f"{chosen.log} is there already: evidence is not written over", file=sys.stderr)
        return 2
    chosen.log.parent.mkdir(parents=True, exist_ok=True)
    declare(chosen.log, chosen.sale, chosen.buyers)
    log = ClientLog(chosen.log, url=chosen.url, sale=chosen.sale, buyers=chosen.buyers, seed=chosen.seed)
    began = time.monotonic()
    try:
        ends = asyncio.run(rush(chosen, log))
    finally:
        log.close()
    print(f"{chosen.buyers} buyers in {time.monotonic() - began:.1f} s")
    for end, count in ends.most_common():
        print(f"{count:8}  {end}")
    return 0


async def rush(chosen: argparse.Namespace, log: ClientLog) -> Counter[str]:
    """All buyers, arriving over so many seconds."""
    client = Client(f"{chosen.url.rstrip('/')}/api/v1", chosen.connections)
    temper = Temper(chosen.double_click, chosen.greedy, chosen.pay, chosen.cancel)
    until = time.monotonic() + chosen.patience
    ends: Counter[str] = Counter()

    async def one(number: int) -> None:
        chance = random.Random(f"{chosen.seed}:{number}")
        await asyncio.sleep(chance.random() * chosen.over)
        name = f"{chosen.prefix}{chosen.sale}-{number}"
        ends[await Buyer(name, chosen.sale, client, log, chance, temper, until).run()] += 1

    async with asyncio.TaskGroup() as crowd:
        for number in range(chosen.buyers):
            crowd.create_task(one(number))
    client.close()
    return ends


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.rush", description="A crowd of buyers for one sale.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway")
    parser.add_argument("--sale", type=int, required=True)
    parser.add_argument("--buyers", type=int, default=500)
    parser.add_argument("--log", type=Path, default=Path("var/stack/evidence/rush.jsonl"), help="a new file")
    parser.add_argument("--over", type=float, default=1.0, metavar="SECONDS", help="they arrive over so long")
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help="then they go home")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--prefix", default="buyer-", help="of their names")
    parser.add_argument("--seed", type=int, default=1)
    for share in ("double_click", "greedy", "pay", "cancel"):
        default = Temper.__dataclass_fields__[share].default
        parser.add_argument(f"--{share.replace('_', '-')}", type=float, default=default, metavar="SHARE")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
