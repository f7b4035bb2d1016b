"""The sweep of orders, every half second: expire due orders, send owed refunds, reconcile with the provider."""

from __future__ import annotations

from orders import expiry, refunds
from orders.reconciliation import Reconciler
from seckill.messaging.pruning import PRUNE_INTERVAL_SECONDS, Pruner
from seckill.messaging.sweep_loop import Sweep, Sweeps

INTERVAL_S = 0.5

_reconciler = Reconciler()


def run_once() -> bool:
    """Every duty once. True: there may be more, so run again at once."""
    expired = expiry.expire_due_orders()
    return handle_money() or expired > 0


def handle_money() -> bool:
    """The duties that call the provider and have no deadline."""
    done = refunds.send_due_refunds() + expiry.void_leftover_attempts()
    return _reconciler.run_if_due() or done > 0


def create_sweeps() -> Sweeps:
    """One thread each, so a slow provider does not delay orders that expire without it, nor refunds delay expiry."""
    return Sweeps(
        Sweep("orders", INTERVAL_S, lambda: expiry.expire_unattempted() > 0),
        Sweep("orders attempted", INTERVAL_S, lambda: expiry.expire_attempted() > 0),
        Sweep("orders money", INTERVAL_S, handle_money),
        Sweep("orders retention", PRUNE_INTERVAL_SECONDS, Pruner("orders").run_once),
    )
