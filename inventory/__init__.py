"""ROOM 2 · inventory — decides which requests get units: Redis proposes, the locked stock row decides.

In:    purchase requests; order events, which it settles.
Out:   decisions; the stock ledger; a view of each sale for the gateway.
From:  gateway (room 1).    Next: orders (room 3).
"""
