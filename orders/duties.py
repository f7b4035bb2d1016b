"""What orders do by themselves, every half second: end what is over, give back what is owed, compare the books."""

from __future__ import annotations

from orders import expiring, reconciling, refunding
from seckill.streams.sweeping import Sweep

BEAT_S = 0.5


def look() -> bool:
    """Each duty once; True: there was so much to do that it is worth looking again at once."""
    done = expiring.expire_due() + refunding.refund_due() + expiring.close_leftovers()
    return reconciling.look() or bool(done)


def sweep() -> Sweep:
    return Sweep("orders", BEAT_S, look)
