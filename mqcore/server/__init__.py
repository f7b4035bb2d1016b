"""Room 1 · server — sockets → requests → answers, in order.

In:    bytes of clients.
Out:   bytes to clients, in the order of their requests.
From:  the network.    Next: wire (room 2), apis (room 3).
"""
