"""Machine: compare one line of the provider's log with our payment.

`FINDINGS` covers every combination of what the provider may report and the state we may have (None: we have no such
payment).
"""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Finding(TextChoices):
    """What a line of the provider's log means for our payment. The labels are for operators."""

    AGREES = "agrees", _("both sides agree")
    CAPTURED_UNHEARD = "captured_unheard", _("captured at the provider, not recorded here")
    REFUNDED_UNHEARD = "refunded_unheard", _("refunded at the provider as requested, not recorded here")
    ORPHAN = "orphan", _("captured at the provider, unknown here")
    ORPHAN_REFUNDED = "orphan_refunded", _("refunded at the provider, unknown here")
    REFUNDED_THERE = "refunded_unasked", _("refunded at the provider, never requested here")
    VOIDED_THERE = "voided_there", _("voided at the provider, captured here")
    UNKNOWN_THERE = "unknown_there", _("captured here, unknown to the provider")
    AMOUNT_DIFFERS = "amount_differs", _("the amounts differ")


F = Finding

FINDINGS: dict[tuple[str, str | None], Finding] = {
    ("opened", None): F.AGREES,  # no money has moved; a later capture is an orphan
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
    ("voided", "open"): F.AGREES,  # we requested the void; the requesting process records it, or requests it again
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


def match_movement(kind: str, amount: int, payment: tuple[str, int] | None) -> Finding:
    """`payment`: its state and amount here, or None. An unknown `kind` raises KeyError."""
    found = FINDINGS[kind, None if payment is None else payment[0]]
    if payment is not None and amount != payment[1]:
        return Finding.AMOUNT_DIFFERS
    return found
