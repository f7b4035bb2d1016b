"""ROOM 3 · orders — from a reservation to a paid order, or back.

In:    inventory.decisions; pay and cancel of buyers; callbacks of the payment provider.
Out:   order.events.
From:  inventory (room 2).    Next: notifications (room 4a), analytics (room 4b), inventory (settlement).
"""
