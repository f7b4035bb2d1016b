"""ROOM 3 · orders — turns reservations into orders, which are paid, expire, are cancelled or refunded.

In:    inventory's decisions; buyers who pay or cancel; callbacks of the payment provider.
Out:   order events.
From:  inventory (room 2).    Next: notifications (room 4a), analytics (room 4b), inventory (settlement).
"""
