"""What inventory says: one decision for each request, and the release of what was reserved."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from seckill import envelope as envelopes
from seckill.envelope import BadEnvelope, Envelope, Origin

DECIDED = "PurchaseDecided"
RELEASED = "UnitsReleased"
VERSION = 1


class Decision(StrEnum):
    """Exactly one for each request."""

    RESERVED = "RESERVED"
    SOLD_OUT = "SOLD_OUT"
    DUPLICATE = "DUPLICATE"  # the user has another active purchase in this sale
    LIMIT_REACHED = "LIMIT_REACHED"  # the quantity is above the cap
    CLOSED = "CLOSED"  # the operator has ended the sale
    TOO_LATE = "TOO_LATE"  # past its deadline when its turn came
    INVALID = "INVALID"


class PurchaseDecided(NamedTuple):
    """`stock_version`: of the stock row the decision rests on; for SOLD_OUT, available < quantity held at it."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    unit_price: int
    decision: Decision
    stock_version: int
    decided_at_ms: int

    def envelope(self, origin: Origin) -> Envelope:
        body = self._asdict() | {"request_id": str(self.request_id), "decision": str(self.decision)}
        return envelopes.new(DECIDED, VERSION, body, cause=self.request_id, origin=origin)


class UnitsReleased(NamedTuple):
    """The units of a request are back in stock: its buyer may buy again. `cause` of the envelope: the order event."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    reason: str
    stock_version: int

    def envelope(self, cause: UUID, origin: Origin | None) -> Envelope:
        body = self._asdict() | {"request_id": str(self.request_id)}
        return envelopes.new(RELEASED, VERSION, body, cause=cause, origin=origin)


def read(envelope: Envelope) -> PurchaseDecided | UnitsReleased:
    body = envelope.body
    try:
        match (envelope.type, envelope.version):
            case ("PurchaseDecided", 1):
                return PurchaseDecided(
                    UUID(body["request_id"]),
                    str(body["user_id"]),
                    int(body["sale_id"]),
                    str(body["sku"]),
                    int(body["quantity"]),
                    int(body["unit_price"]),
                    Decision(body["decision"]),
                    int(body["stock_version"]),
                    int(body["decided_at_ms"]),
                )
            case ("UnitsReleased", 1):
                return UnitsReleased(
                    UUID(body["request_id"]),
                    str(body["user_id"]),
                    int(body["sale_id"]),
                    str(body["sku"]),
                    int(body["quantity"]),
                    str(body["reason"]),
                    int(body["stock_version"]),
                )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"no {envelope.type}: {error!r}") from error
    raise BadEnvelope(f"{envelope.type} {envelope.version} is nothing inventory says")


SALES_KEY = "sales"
"""The set of the sales that are current, in admission's Redis. `NO_SALE` is always in it: a set that is not there means
"not known yet"."""
NO_SALE = 0
SALES_LIFE_KEY = "sales:life"
"""The life of Redis (its run_id) in which the set was last written as a whole."""
VIEW_SCHEMA = 1
"""Raised only when an older reader would misunderstand a view. A field it does not know it may ignore."""


def view_key(sale_id: int) -> str:
    return f"sale:{{{sale_id}}}:view"


@dataclass(frozen=True, slots=True)
class SaleView:
    """What a gateway knows of a sale: shown by inventory after every change, and once a second while it is current."""

    id: int
    name: str
    sku: str
    unit_price: int
    cap: int
    declared: int
    available: int
    reserved: int
    sold: int
    stock_version: int
    state: str
    opens_at_ms: int
    closes_at_ms: int

    def encode(self) -> str:
        fields = {"schema": VIEW_SCHEMA} | asdict(self)
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str | bytes) -> SaleView:
        """`BadEnvelope` if a field is missing, or if a newer inventory says that older readers would misunderstand."""
        try:
            found = json.loads(text)
            schema = found.get("schema", 1)
            if schema > VIEW_SCHEMA:
                raise ValueError(f"schema {schema} is newer than {VIEW_SCHEMA}")
            return cls(**{name: found[name] for name in cls.__slots__})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadEnvelope(f"no view of a sale: {error!r}") from error
