"""Shell: `seckill refund`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from seckill.cli.context import USAGE_ERROR, CommandError, start_django_on_stack


def add_to(app: typer.Typer) -> None:
    app.command()(refund)


def refund(
    order: Annotated[str, typer.Argument(metavar="ORDER", help="id of the order")],
    return_units: Annotated[
        bool, typer.Option("--return-units", help="put the units back into the sale; without this they stay sold")
    ] = False,
    because: Annotated[str, typer.Option(metavar="TEXT", help="why; kept in the audit trail")] = "",
) -> None:
    """Refund a PAID order, once."""
    order_id = _parse_order_id(order)
    start_django_on_stack()
    from orders import refunds
    from orders.payments.provider import ProviderDown

    try:
        owed = refunds.refund_order(order_id, return_units=return_units, because=because)
    except refunds.RefundRejected as refused:
        raise CommandError(str(refused)) from refused
    units = "its units go back into the sale" if return_units else "its units stay sold"
    print(f"order {owed.order_id} is REFUNDED; {units}")
    try:
        is_sent = refunds.send_refund(owed.payment_id)
    except ProviderDown:
        is_sent = False
    money = "has been sent back" if is_sent else "is owed; the sweep retries until the provider has sent it back"
    print(f"{owed.amount} {money}")


def _parse_order_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise CommandError(f"ORDER must be the id of an order, a UUID, got {text!r}", USAGE_ERROR) from None
