"""Operator's verbs: `manage.py sale create|open|pause|close|adjust|list`."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from inventory import operating
from inventory.models import Stock


def seconds(text: str) -> float:
    """`ValueError` for what is none: argparse tells the operator."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


class Command(BaseCommand):
    help = "Create, open, pause, close, adjust and list sales."

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True)
        create = words.add_parser("create")
        create.add_argument("--name", required=True)
        create.add_argument("--sku", required=True)
        create.add_argument("--units", type=int, required=True)
        create.add_argument("--price", type=int, default=100, help="of one unit, in the smallest coin")
        create.add_argument("--cap", type=int, default=1, help="most units in one purchase")
        create.add_argument("--opens-in", type=seconds, default=0.0, metavar="SECONDS")
        create.add_argument("--lasts", type=seconds, default=3600.0, metavar="SECONDS")
        for word in ("open", "pause", "close"):
            words.add_parser(word).add_argument("sale", type=int)
        adjust = words.add_parser("adjust")
        adjust.add_argument("sale", type=int)
        adjust.add_argument("sku")
        adjust.add_argument("units", type=int, help="more, or less if negative")
        words.add_parser("list")

    def handle(self, *args: Any, word: str, **options: Any) -> None:
        try:
            match word:
                case "create":
                    opens_at_ms = int((time.time() + options["opens_in"]) * 1000)
                    stock = operating.create(
                        options["name"], options["sku"], options["units"], options["price"], options["cap"],
                        opens_at_ms, opens_at_ms + int(options["lasts"] * 1000),
                    )  # fmt: skip
                    self.stdout.write(json.dumps({"sale": stock.sale_id, "sku": stock.sku, "units": stock.declared}))
                case "open" | "pause" | "close":
                    state = {"open": "open", "pause": "paused", "close": "closed"}[word]
                    operating.set_state(options["sale"], state)
                    self.stdout.write(f"sale {options['sale']} is {state}")
                case "adjust":
                    stock = operating.adjust(options["sale"], options["sku"], options["units"])
                    self.stdout.write(f"available: {stock.available}")
                case "list":
                    for stock in Stock.objects.select_related("sale").order_by("sale_id", "id"):
                        head = f"{stock.sale_id}  {stock.sale.name}  {stock.sku}  {stock.sale.state}"
                        units = f"available {stock.available}  reserved {stock.reserved}  sold {stock.sold}"
                        self.stdout.write(f"{head}  declared {stock.declared}  {units}")
        except operating.Refused as refused:
            raise CommandError(str(refused)) from refused
