"""Grants in the gate that nobody has: found a few at a time, and given back.

A process may die, or sleep, between the gate's word and the row's; its request is then refused by another one that did
not ask the gate, and the grant stays. A request that was refused, or whose units came back, is never granted again, so
its grant can be given back at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from inventory import gate, rows
from inventory.models import Stock

PER_LOOK = 500
"""Of each gate, once a second."""

_OVER = """
SELECT asked.stock_id, asked.request_id
FROM unnest(%s::bigint[], %s::uuid[]) AS asked (stock_id, request_id)
WHERE EXISTS (SELECT FROM inventory_decided AS there
              WHERE there.request_id = asked.request_id AND there.decision <> 'RESERVED')
   OR EXISTS (SELECT FROM inventory_hold AS there
              WHERE there.request_id = asked.request_id AND there.state = 'released')
"""

_cursors: dict[tuple[int, int], int] = {}
"""Where the next look begins, by stock and epoch; in this process."""


def look(stocks: Sequence[Stock]) -> int:
    """How many were found; they are left in `GateSync` for the gate to be told."""
    asked = [
        (stock.sale_id, stock.sku, stock.gate_epoch, _cursors.get((stock.id, stock.gate_epoch), 0)) for stock in stocks
    ]
    found = gate.some_granted(asked, PER_LOOK)
    _cursors.clear()
    pairs: list[tuple[int, UUID]] = []
    for stock, (cursor, requests) in zip(stocks, found, strict=True):
        _cursors[stock.id, stock.gate_epoch] = cursor
        pairs += [(stock.id, request) for request in requests]
    if not pairs:
        return 0
    with connection.cursor() as cursor_:
        cursor_.execute(_OVER, [list(column) for column in zip(*pairs, strict=True)])
        over = [(row[0], row[1]) for row in cursor_.fetchall()]
    rows.insert_gate_sync(over)
    return len(over)
