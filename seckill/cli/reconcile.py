"""Shell: `seckill reconcile`: compare the payment provider's log with our payments."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from seckill.cli.context import DONE, REFUSED, UNAVAILABLE, USAGE_ERROR, CommandError, start_django_on_stack
from seckill.cli.output import print_json, print_table

reconcile = typer.Typer(invoke_without_command=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(reconcile, name="reconcile")


@reconcile.callback()
def compare(
    invocation: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only print what would be repaired")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> int:
    """Compare the payment provider's whole log with our payments, and repair what can be repaired.

    Exits with 1 while a discrepancy needs an operator.
    """
    if invocation.invoked_subcommand:
        return DONE
    start_django_on_stack()
    from orders.models import Discrepancy
    from orders.payments.provider import ProviderDown

    try:
        line_count, found = _compare_all(dry_run)
    except ProviderDown as fault:
        raise CommandError(f"the payment provider is unavailable: {fault}", UNAVAILABLE) from fault
    unsettled = list(Discrepancy.objects.exclude(state="settled").order_by("id"))
    if as_json:
        print_json({
            "lines": line_count,
            "dry_run": dry_run,
            "found": [
                {"finding": each.finding.value, "payment": str(each.payment_id), "order": each.order_id,
                 "amount": each.amount}
                for each in found
            ],
            "unsettled": [
                {"id": row.id, "finding": row.kind, "payment": str(row.payment_id), "order": row.order_id,
                 "amount": row.amount, "state": row.state, "found_at": row.found_at.isoformat()}
                for row in unsettled
            ],
        })  # fmt: skip
    else:
        repaired = "would be" if dry_run else "were"
        print(f"{line_count:,} lines of the provider's log; {len(found)} findings {repaired} dealt with")
        if found or unsettled:
            print_table(
                ("id", "finding", "payment", "order", "amount", "state"),
                [("", each.finding.label, each.payment_id, each.order_id, each.amount, "now") for each in found]
                + [
                    (row.id, row.get_kind_display(), row.payment_id, row.order_id, row.amount, row.state)
                    for row in unsettled
                ],
            )
    open_count = Counter(row.state for row in unsettled)["open"]
    return REFUSED if open_count or (dry_run and found) else DONE


@reconcile.command()
def close(
    number: Annotated[int, typer.Argument(metavar="ID", help="as `seckill reconcile` shows it")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="why; kept in the audit trail")],
) -> None:
    """Close a discrepancy that an operator has dealt with; it is not shown again."""
    if not reason.strip():
        raise CommandError("--reason must not be empty", USAGE_ERROR)
    start_django_on_stack()
    from orders import reconciliation

    try:
        row = reconciliation.close_discrepancy(number, because=reason)
    except reconciliation.DiscrepancyNotOpen as refused:
        raise CommandError(str(refused)) from refused
    print(f"closed: {row.get_kind_display()}, payment {row.payment_id}, {row.amount}")


def _compare_all(dry_run: bool) -> tuple[int, list[Any]]:
    from django.db import transaction
    from rich.console import Console
    from rich.progress import Progress

    from orders import reconciliation, refunds

    line_count, found = 0, []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("the provider's log", total=None)
        for page in reconciliation.read_all_pages(
            lambda page: progress.update(bar, completed=page.movements[-1].number, total=page.last)
        ):
            line_count += len(page.movements)
            on_page = reconciliation.find_discrepancies(page.movements)
            if not dry_run:
                with transaction.atomic():
                    reconciliation.apply_findings(page.movements, on_page)
            found.extend(on_page)
    found.extend(reconciliation.check_missing_captures(dry_run=dry_run))
    if not dry_run:
        refunds.send_due_refunds()
    return line_count, found
