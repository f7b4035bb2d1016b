"""Shell: `seckill sale`: create, open, pause and close a sale, change its stock, list all sales."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, start_django_on_stack
from seckill.cli.output import print_json, print_table

sale = typer.Typer(no_args_is_help=True, help="Create, open, pause, close, adjust and list sales.")
SaleId = Annotated[int, typer.Argument(metavar="SALE", help="id of the sale, as in `seckill sale list`")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(sale, name="sale")


@sale.command()
def create(
    name: Annotated[str, typer.Option(help="name of the sale")],
    sku: Annotated[str, typer.Option(help="article")],
    units: Annotated[int, typer.Option(help="units of stock")],
    price: Annotated[int, typer.Option(help="price of one unit, in cents")] = 100,
    cap: Annotated[int, typer.Option(help="units that one purchase may take at most")] = 1,
    opens_in: Annotated[float, typer.Option(metavar="SECONDS", help="seconds until it opens")] = 0.0,
    lasts: Annotated[float, typer.Option(metavar="SECONDS", help="seconds from its opening to its end")] = 3600.0,
) -> None:
    """Create a sale and print its id as JSON.

    \b
    Example:
      seckill sale create --name Gong --sku phone --units 500 --price 9900 --opens-in 30
    """
    for option, seconds in (("--opens-in", opens_in), ("--lasts", lasts)):
        if not math.isfinite(seconds):
            raise CommandError(f"{option} must be a finite number of seconds, got {seconds}", USAGE_ERROR)
    start_django_on_stack()
    from inventory import sale_commands

    try:
        stock = sale_commands.create_sale_in(name, sku, units, price, cap, opens_in_s=opens_in, lasts_s=lasts)
    except sale_commands.SaleCommandRejected as refused:
        raise CommandError(str(refused)) from refused
    print_json({"sale": stock.sale_id, "sku": stock.sku, "units": stock.declared})


@sale.command("open")
def open_sale(sale_id: SaleId) -> None:
    """Let buyers buy again after a pause. The sale's time window still applies."""
    _set_state(sale_id, "open")


@sale.command()
def pause(sale_id: SaleId) -> None:
    """Refuse new purchases until `seckill sale open`."""
    _set_state(sale_id, "paused")


@sale.command()
def close(sale_id: SaleId) -> None:
    """End the sale for good."""
    _set_state(sale_id, "closed")


@sale.command(context_settings={"ignore_unknown_options": True})
def adjust(
    sale_id: SaleId,
    sku: Annotated[str, typer.Argument(help="article")],
    units: Annotated[int, typer.Argument(help="units to add; a negative number removes units")],
) -> None:
    """Change the stock of a sale.

    \b
    Example:
      seckill sale adjust 1 phone -50
    """
    start_django_on_stack()
    from inventory import sale_commands

    try:
        stock = sale_commands.adjust_stock(sale_id, sku, units)
    except sale_commands.SaleCommandRejected as refused:
        raise CommandError(str(refused)) from refused
    print(f"available: {stock.available}")


@sale.command("list")
def list_sales(as_json: AsJson = False) -> None:
    """List all sales with their stock."""
    start_django_on_stack()
    from inventory.models import Stock

    names = ("sale", "name", "sku", "state", "declared", "available", "reserved", "sold")
    rows = [
        (stock.sale_id, stock.sale.name, stock.sku, stock.sale.state, stock.declared, stock.available, stock.reserved,
         stock.sold)
        for stock in Stock.objects.select_related("sale").order_by("sale_id", "id")
    ]  # fmt: skip
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        print_table(names, rows)


def _set_state(sale_id: int, state: str) -> None:
    start_django_on_stack()
    from inventory import sale_commands

    try:
        sale_commands.set_sale_state(sale_id, state)
    except sale_commands.SaleCommandRejected as refused:
        raise CommandError(str(refused)) from refused
    print(f"sale {sale_id} is {state}")
