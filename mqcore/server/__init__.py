"""Room 1 · server: sockets → requests → answers, in the order of the requests.

In:      bytes from clients.
Out:     bytes to clients.
Used by: broker.    Uses: wire (room 2), apis (room 3).
"""
