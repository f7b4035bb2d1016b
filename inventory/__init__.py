"""ROOM 2 · inventory — decides who gets a unit: Redis proposes, the locked row decides.

In:    purchase.requests; order events (settlement).
Out:   inventory.decisions; the stock ledger; a view of each sale for the gateway.
From:  gateway (room 1).    Next: orders (room 3).
"""
