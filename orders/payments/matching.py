"""Machine: a line of the provider's log beside what we believe of that payment: what follows from the two.

The table is whole: whatever the provider may say, whatever we may believe (None: nothing, it is no payment of ours).
"""

from __future__ import annotations

from enum import StrEnum


class Finding(StrEnum):
    """What the two make together, in words for an operator."""

    AGREES = "agrees"
    CAPTURED_UNHEARD = "captured there, and we have not heard of it"
    REFUNDED_UNHEARD = "refunded there, as we have asked, and we have not heard of it"
    ORPHAN = "captured there, unknown here"
    ORPHAN_REFUNDED = "refunded there, unknown here"
    REFUNDED_THERE = "refunded there, and we have not asked for it"
    VOIDED_THERE = "voided there, and we say that it was captured"
    UNKNOWN_THERE = "captured here, unknown there"
    AMOUNT_DIFFERS = "not the amount that we have asked for"


F = Finding

FINDINGS: dict[tuple[str, str | None], Finding] = {
    ("opened", None): F.AGREES,  # no money yet; if some comes, it is an orphan
    ("opened", "open"): F.AGREES,
    ("opened", "captured"): F.AGREES,
    ("opened", "voided"): F.AGREES,
    ("opened", "refunding"): F.AGREES,
    ("opened", "refunded"): F.AGREES,
    ("captured", None): F.ORPHAN,
    ("captured", "open"): F.CAPTURED_UNHEARD,
    ("captured", "captured"): F.AGREES,
    ("captured", "voided"): F.CAPTURED_UNHEARD,
    ("captured", "refunding"): F.AGREES,
    ("captured", "refunded"): F.AGREES,
    ("voided", None): F.AGREES,
    ("voided", "open"): F.AGREES,  # our own doing; whoever asked for it will note it, or ask again
    ("voided", "captured"): F.VOIDED_THERE,
    ("voided", "voided"): F.AGREES,
    ("voided", "refunding"): F.VOIDED_THERE,
    ("voided", "refunded"): F.VOIDED_THERE,
    ("refunded", None): F.ORPHAN_REFUNDED,
    ("refunded", "open"): F.REFUNDED_THERE,
    ("refunded", "captured"): F.REFUNDED_THERE,
    ("refunded", "voided"): F.REFUNDED_THERE,
    ("refunded", "refunding"): F.REFUNDED_UNHEARD,
    ("refunded", "refunded"): F.AGREES,
}


def judge(what: str, amount: int, ours: tuple[str, int] | None) -> Finding:
    """`ours`: state and amount. A word that the provider has never used before is a KeyError."""
    found = FINDINGS[what, None if ours is None else ours[0]]
    if ours is not None and amount != ours[1]:
        return Finding.AMOUNT_DIFFERS
    return found
