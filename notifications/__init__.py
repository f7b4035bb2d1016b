"""ROOM 4a · notifications — sends each order event to its buyer, once per channel.

In:    order events, read by one consumer group per channel.
Out:   deliveries; calls of the message sinks.
From:  orders (room 3).    Next: the buyer's phone.
"""
