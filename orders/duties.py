"""What orders do by themselves, every half second: end what is over, give back what is owed, compare the books."""

from __future__ import annotations

from orders import expiring, reconciling, refunding
from seckill.streams.pruning import LOOK_S, Pruner
from seckill.streams.sweeping import Sweep, Sweeps

BEAT_S = 0.5


def look() -> bool:
    """Each duty once; True: there was so much to do that it is worth looking again at once."""
    done = expiring.expire_due()
    return _settle_money() or bool(done)


def _settle_money() -> bool:
    """What waits for the provider and has no deadline."""
    done = refunding.refund_due() + expiring.close_leftovers()
    return reconciling.look() or bool(done)


def sweep() -> Sweeps:
    """Each on a thread of its own: a slow provider delays no order that can end without it, refunds delay no expiry."""
    return Sweeps(
        Sweep("orders", BEAT_S, lambda: expiring.expire_unattempted() > 0),
        Sweep("orders attempted", BEAT_S, lambda: expiring.expire_attempted() > 0),
        Sweep("orders money", BEAT_S, _settle_money),
        Sweep("orders retention", LOOK_S, Pruner("orders").look),
    )
