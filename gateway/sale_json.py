"""Codec: what the API shows of a sale, and its entity tag."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from inventory.events import ArticleView, SaleView


class Availability(StrEnum):
    AVAILABLE = "available"
    ALL_HELD = "all_held"  # no unit is left, but unpaid ones may come back
    SOLD_OUT = "sold_out"  # the last unit has been sold


def availability(view: SaleView) -> Availability:
    """Derived from the view alone, so a return or an adjustment ends SOLD_OUT with the next view."""
    if view.available > 0:
        return Availability.AVAILABLE
    return Availability.ALL_HELD if view.reserved > 0 else Availability.SOLD_OUT


def sale_json(view: SaleView) -> dict[str, Any]:
    """The fields of stock describe the first article; `articles` lists all of them."""
    sale = _fields(view, _SALE_FIELDS) | {"availability": availability(view).value}
    return sale | {"articles": [_article_json(each) for each in view.articles()]}


def _article_json(view: SaleView) -> dict[str, Any]:
    return _fields(view, _ARTICLE_FIELDS) | {"availability": availability(view).value}


def _fields(view: SaleView, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(view, name) for name in names}


_SALE_FIELDS = tuple(name for name in SaleView.__slots__ if name != "more_articles")
_ARTICLE_FIELDS = tuple(ArticleView.__slots__)


def sale_etag(view: SaleView) -> str:
    """Changes whenever the JSON of the sale does."""
    return f"{view.id}.{view.version}.{view.state}"
