"""ROOM 4a · notifications — one effect for each event and channel.

In:    order events, once for each channel (three groups).
Out:   deliveries; calls of the outside world's sinks.
From:  orders (room 3).    Next: the buyer's phone.
"""
