"""Room 3 · apis: one module per request, named after it. Each declares the versions it serves.

In:      a decoded request and its `Call`.
Out:     one response.
Used by: server (room 1).    Uses: partitions, controller, groups.
"""
