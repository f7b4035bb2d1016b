"""Shell: `python -m loadtest.rush --url http://127.0.0.1:8000 --sale 1 --buyers 1000 --log FOLDER/rush.jsonl`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from loadtest.buyer_profiles import FARM, FLOOD, Mixture
from loadtest.client_log import ClientLog, declare
from loadtest.generator_load import WARNING
from loadtest.rush.crowd import Plan, run_crowd


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.rate is not None and chosen.rate <= 0:
        parser.error("--rate must be above 0 arrivals per second")
    if chosen.log.exists():
        print(f"{chosen.log} exists; evidence is never overwritten, so name another file", file=sys.stderr)
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
        outcomes, load = asyncio.run(run_crowd(plan, log))
    except KeyboardInterrupt:
        print("stopped; the log shows open requests without a response", file=sys.stderr)
        return 130
    finally:
        log.close()
    print(f"{outcomes.total():,} buyers in {time.monotonic() - began:.1f} s")
    for outcome, count in outcomes.most_common():
        print(f"{count:8,}  {outcome}")
    print(load)
    if load.is_too_high:
        print(f"warning: {WARNING}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.rush", description="A crowd of buyers for one sale.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="address of the gateway")
    parser.add_argument("--sale", type=int, required=True)
    parser.add_argument("--buyers", type=int, default=500)
    parser.add_argument(
        "--log", type=Path, default=Path("var/stack/evidence/rush.jsonl"), help="file for the log; it must not exist"
    )
    parser.add_argument("--over", type=float, default=1.0, metavar="SECONDS", help="how long the buyers take to arrive")
    parser.add_argument(
        "--rate",
        type=float,
        metavar="R",
        help="open loop: start R buyers per second",
    )
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help="when buyers give up")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--prefix", default="buyer-", help="prefix of their names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--farms", type=int, default=0, metavar="N", help=f"bots: each {FARM.accounts} accounts at one address"
    )
    parser.add_argument(
        "--floods", type=int, default=0, metavar="N", help=f"bots: each one account with {FLOOD.keys} requests"
    )
    shares = {
        "double_click": "buyers who click twice at once",
        "greedy": "buyers who try a second purchase",
        "storm": "buyers who click four times and ignore Retry-After",
        "pay": "buyers with a unit who pay",
        "cancel": "buyers with a unit who cancel; the rest let the order expire",
    }
    for share, text in shares.items():
        default = Mixture.__dataclass_fields__[share].default
        parser.add_argument(
            f"--{share.replace('_', '-')}", type=float, default=default, metavar="SHARE", help=f"{text} ({default})"
        )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
