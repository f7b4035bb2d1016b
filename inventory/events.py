"""Events that inventory publishes (one decision per request, and the release of reserved units), and the sale view."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from seckill.messaging.envelope import BadEnvelope, Envelope, new_envelope
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.versions import upgrade_body

PURCHASE_DECIDED = "PurchaseDecided"
UNITS_RELEASED = "UnitsReleased"
VERSION = 1


class Decision(StrEnum):
    """Each request gets exactly one."""

    RESERVED = "RESERVED"
    SOLD_OUT = "SOLD_OUT"
    DUPLICATE = "DUPLICATE"  # the user already has an active purchase in this sale
    LIMIT_REACHED = "LIMIT_REACHED"  # the quantity exceeds the cap
    CLOSED = "CLOSED"  # an operator closed the sale
    TOO_LATE = "TOO_LATE"  # the deadline passed before the request was decided
    INVALID = "INVALID"


class PurchaseDecided(NamedTuple):
    """`stock_version`: version of the stock row that the decision is based on. SOLD_OUT: available < quantity at it."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    unit_price: int
    decision: Decision
    stock_version: int
    decided_at_ms: int

    def envelope(self, origin: RecordPosition) -> Envelope:
        body = self._asdict() | {"request_id": str(self.request_id), "decision": str(self.decision)}
        return new_envelope(PURCHASE_DECIDED, VERSION, body, cause=self.request_id, origin=origin)


class UnitsReleased(NamedTuple):
    """The units of a request are available again, so its buyer may buy again. The envelope's cause: the order event."""

    request_id: UUID
    user_id: str
    sale_id: int
    sku: str
    quantity: int
    reason: str
    stock_version: int

    def envelope(self, cause: UUID, origin: RecordPosition | None) -> Envelope:
        body = self._asdict() | {"request_id": str(self.request_id)}
        return new_envelope(UNITS_RELEASED, VERSION, body, cause=cause, origin=origin)


def parse_event(envelope: Envelope) -> PurchaseDecided | UnitsReleased:
    body = upgrade_body(envelope.type, envelope.version, envelope.body, newest=VERSION)
    try:
        match envelope.type:
            case "PurchaseDecided":
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
            case "UnitsReleased":
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
        raise BadEnvelope(f"not a valid {envelope.type}: {error!r}") from error
    raise BadEnvelope(f"not an event of inventory: {envelope.type}")


SALES_KEY = "sales"
"""Set of the current sales in admission's Redis. It always contains `NO_SALE`, so a missing set means "unknown"."""
NO_SALE = 0
SALES_RUN_KEY = "sales:life"
"""The run id of the Redis process in which the whole set was last written."""
VIEW_SCHEMA = 1
"""Raise it only if an older gateway would misunderstand a view. Adding a field with a default does not change it."""


def view_key(sale_id: int) -> str:
    return f"sale:{{{sale_id}}}:view"


@dataclass(frozen=True, slots=True)
class ArticleView:
    """One article of a sale with its stock, in the fields of `SaleView`."""

    sku: str
    unit_price: int
    cap: int
    declared: int
    available: int
    reserved: int
    sold: int
    stock_version: int


@dataclass(frozen=True, slots=True)
class SaleView:
    """What gateways know of a sale. Inventory publishes it after every change, and every second while it is current.

    The fields of stock describe the first article; `more_articles` are the others. Gateways and inventory are upgraded
    independently: a field added later needs a default (seckill/messaging/versions).
    """

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
    more_articles: tuple[ArticleView, ...] = ()

    @property
    def version(self) -> int:
        """Grows with every change of any article's stock."""
        return self.stock_version + sum(each.stock_version for each in self.more_articles)

    def articles(self) -> list[SaleView]:
        """One view for each article, as if it were the only one of the sale."""
        first = replace(self, more_articles=()) if self.more_articles else self
        return [first, *(replace(first, **asdict(each)) for each in self.more_articles)]

    def encode(self) -> str:
        content = {"schema": VIEW_SCHEMA, "version": self.version} | asdict(self)
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str | bytes) -> SaleView:
        """Raises `BadEnvelope` if a field without a default is missing, or if the schema is newer than ours."""
        try:
            content = json.loads(text)
            body = upgrade_body("SaleView", content.get("schema", 1), content, newest=VIEW_SCHEMA)
            known = {field.name: body[field.name] for field in fields(cls) if field.name in body}
            known["more_articles"] = tuple(map(_decode_article, body.get("more_articles", ())))
            return cls(**known)
        except BadEnvelope:
            raise
        except (ValueError, TypeError, AttributeError) as error:
            raise BadEnvelope(f"not a valid sale view: {error!r}") from error


def _decode_article(content: dict[str, Any]) -> ArticleView:
    """Fields that a newer inventory has added are ignored."""
    return ArticleView(**{field.name: content[field.name] for field in fields(ArticleView) if field.name in content})
