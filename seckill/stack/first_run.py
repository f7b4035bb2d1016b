"""Shell: `python -m seckill.stack.first_run [--operator]`: a first sale and, if asked for, a first operator.

`seckill up` and docker-compose.yml run it after the migrations, so that the shop never starts empty. It is safe to run
again: a sale that is open or scheduled, and an operator who exists, stay as they are. Outside of development it does
nothing, because a real shop decides about its own sales and accounts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from io import StringIO

NAME, SKU, UNITS, UNIT_PRICE, UNITS_PER_BUYER_MAX = "Gong", "phone", 500, 9900, 1
LASTS_MS = 7 * 24 * 3600 * 1000
OPERATOR = "operator"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m seckill.stack.first_run", description="Create the first sale of a new stack."
    )
    parser.add_argument("--operator", action="store_true", help="create an account for /console and print its password")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.config.settings")
    import django
    from django.conf import settings

    django.setup()
    found = {"sale": "", "operator": ""}
    if settings.ENVIRONMENT.development:
        found["sale"] = ensure_sale()
        if options.operator:
            found["operator"] = ensure_operator()
    print(json.dumps(found) if options.json else "\n".join(filter(None, found.values())))
    return 0


def ensure_sale() -> str:
    """Create a sale unless one is open or scheduled; describes the sale that the shop will show."""
    from inventory import sale_commands
    from inventory.models import Sale, Stock

    now_ms = time.time_ns() // 1_000_000
    sale = Sale.objects.filter(closes_at_ms__gt=now_ms).exclude(state="closed").order_by("opens_at_ms").first()
    if sale is None:
        sale_commands.create_sale(NAME, SKU, UNITS, UNIT_PRICE, UNITS_PER_BUYER_MAX, now_ms, now_ms + LASTS_MS)
        sale = Sale.objects.latest("id")
    stock = Stock.objects.filter(sale=sale).order_by("id")[0]
    return f'sale {sale.id} "{sale.name}": {stock.available} of {stock.declared} units of {stock.sku} left'


def ensure_operator() -> str:
    """Create an operator unless one exists. The text has the password, which no later run can show again."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    if User.objects.filter(is_staff=True).exists():
        return ""
    output = StringIO()
    call_command("operator", OPERATOR, stdout=output)
    return output.getvalue().strip()


if __name__ == "__main__":
    raise SystemExit(main())
