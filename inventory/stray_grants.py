"""Find grants in the gate that no purchase has, a few at a time, and give them back.

A process may stop between the gate's answer and the row's decision. Another process then rejects the request without
asking the gate, and the grant remains. A request that was rejected or released is never granted later, so its grant can
be given back at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from inventory import batch_sql, gate
from inventory.models import Stock

GRANTS_PER_SCAN_MAX = 500
"""Of each gate, in each run of the sweep."""

_SELECT_STRAY = """
SELECT requested.stock_id, requested.request_id
FROM unnest(%s::bigint[], %s::uuid[]) AS requested (stock_id, request_id)
WHERE EXISTS (SELECT FROM inventory_decided AS there
              WHERE there.request_id = requested.request_id AND there.decision <> 'RESERVED')
   OR EXISTS (SELECT FROM inventory_hold AS there
              WHERE there.request_id = requested.request_id AND there.state = 'released')
"""

_cursors: dict[tuple[int, int], int] = {}
"""Where the next scan of a gate continues, by stock and epoch. Each process has its own."""


def release_stray_grants(stocks: Sequence[Stock]) -> int:
    """Record a release for each stray grant; `gate_rebuild.send_releases` sends them. Returns how many were found."""
    gates = [
        (stock.sale_id, stock.sku, stock.gate_epoch, _cursors.get((stock.id, stock.gate_epoch), 0)) for stock in stocks
    ]
    scanned = gate.scan_grants(gates, GRANTS_PER_SCAN_MAX)
    _cursors.clear()
    pairs: list[tuple[int, UUID]] = []
    for stock, (position, requests) in zip(stocks, scanned, strict=True):
        _cursors[stock.id, stock.gate_epoch] = position
        pairs += [(stock.id, request) for request in requests]
    if not pairs:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_STRAY, [list(column) for column in zip(*pairs, strict=True)])
        stray = [(row[0], row[1]) for row in cursor.fetchall()]
    batch_sql.insert_gate_releases(stray)
    return len(stray)
