"""The garbage collector of a process that works for long: it looks at what is new, and seldom.

A batch makes some ten thousand small values that die with it and refer to nobody in a ring. The collector's own pace,
each 700 of them, costs a third of the batch's time, and a full look goes over all of Django each time.
"""

from __future__ import annotations

import gc

MOST_NEW = 20_000


def settle_down() -> None:
    """What the start has made stays for good; from here on few looks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(MOST_NEW, 20, 20)
