"""Shell: an operator's words on money: refund an order; compare the provider's log with ours."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from seckill.reaching import on_a_stack, stack_words


def add_words(words: Any) -> None:
    where = stack_words()
    refund = words.add_parser("refund", help="give the money of a PAID order back, once", parents=[where])
    refund.add_argument("order", type=_uuid, metavar="ORDER", help="its id")
    refund.add_argument(
        "--return-units", action="store_true", help="its units go back into the sale, too (without it they stay sold)"
    )
    refund.add_argument("--because", default="", metavar="TEXT", help="why; kept in the audit trail")
    refund.set_defaults(run=on_a_stack(_refund))
    reconcile = words.add_parser(
        "reconcile",
        help="the provider's whole log beside our payments; exit 1 while an operator has to look at something",
        parents=[where],
    )
    reconcile.add_argument("--dry-run", action="store_true", help="only say what would be mended")
    reconcile.add_argument("--json", action="store_true")
    reconcile.set_defaults(run=on_a_stack(_reconcile))
    close = reconcile.add_subparsers(metavar="close").add_parser(
        "close", help="one that was looked at and seen to; it is not shown again", parents=[where]
    )
    close.add_argument("id", type=int, metavar="ID", help="as `seckill reconcile` shows it")
    close.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the audit trail")
    close.set_defaults(run=on_a_stack(_close))


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no order's id") from None


def _refund(chosen: argparse.Namespace) -> int:
    from orders import refunding
    from orders.payments.provider import ProviderDown

    try:
        owed = refunding.refund(chosen.order, return_units=chosen.return_units, because=chosen.because)
    except refunding.Refused as refused:
        print(f"seckill: {refused}", file=sys.stderr)
        return 1
    units = "its units go back into the sale" if chosen.return_units else "its units stay sold"
    print(f"order {owed.order_id} is REFUNDED; {units}")
    try:
        is_back = refunding.give_back(owed.payment_id)
    except ProviderDown:
        is_back = False
    print(f"{owed.amount} {'are back' if is_back else 'are owed: the sweep asks the provider until they are back'}")
    return 0


def _reconcile(chosen: argparse.Namespace) -> int:
    from orders.payments.provider import ProviderDown

    try:
        read, found = _compare(chosen.dry_run)
    except ProviderDown as fault:
        print(f"seckill: the provider cannot be asked: {fault}", file=sys.stderr)
        return 3
    from orders.models import Discrepancy

    unsettled = list(Discrepancy.objects.exclude(state="settled").order_by("id"))
    mended = "would be" if chosen.dry_run else "were"
    if chosen.json:
        rows = [
            {
                "finding": each.finding.value,
                "payment": str(each.payment_id),
                "order": each.order_id,
                "amount": each.amount,
            }
            for each in found
        ]
        known = [
            {"id": row.id, "finding": row.kind, "payment": str(row.payment_id), "order": row.order_id,
             "amount": row.amount, "state": row.state, "found_at": row.found_at.isoformat()}
            for row in unsettled
        ]  # fmt: skip
        print(json.dumps({"lines": read, "dry_run": chosen.dry_run, "found": rows, "unsettled": known}))
    else:
        print(f"{read:,} lines of the provider's log; {len(found)} findings {mended} dealt with")
        if found or unsettled:
            Console().print(_table([*(("", each.finding.value, each.payment_id, each.order_id, each.amount,
                                       "now") for each in found),
                                    *((row.id, row.kind, row.payment_id, row.order_id, row.amount, row.state)
                                      for row in unsettled)]))  # fmt: skip
    waiting = Counter(row.state for row in unsettled)
    return 1 if waiting["open"] or (chosen.dry_run and found) else 0


def _close(chosen: argparse.Namespace) -> int:
    from orders import reconciling

    if not chosen.reason.strip():
        print("seckill: say why with --reason", file=sys.stderr)
        return 2
    try:
        row = reconciling.close(chosen.id, because=chosen.reason)
    except reconciling.NotOpen as refused:
        print(f"seckill: {refused}", file=sys.stderr)
        return 1
    print(f"closed: {row.kind}, payment {row.payment_id}, {row.amount}")
    return 0


def _compare(dry_run: bool) -> tuple[int, list[Any]]:
    from django.db import transaction

    from orders import reconciling, refunding

    read, found = 0, []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("the provider's log", total=None)
        for page in reconciling.all_pages(
            lambda page: progress.update(bar, completed=page.movements[-1].number, total=page.last)
        ):
            read += len(page.movements)
            these = reconciling.compare(page.movements)
            if not dry_run:
                with transaction.atomic():
                    reconciling.settle(page.movements, these)
            found.extend(these)
    found.extend(reconciling.ask_for_missing(dry_run=dry_run))
    if not dry_run:
        refunding.refund_due()
    return read, found


def _table(rows: list[tuple[Any, ...]]) -> Table:
    table = Table("id", "finding", "payment", "order", "amount", "state", box=None)
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row))
    return table
