"""Room 3 · apis — one module per request, named after it, declaring its versions.

In:    a decoded request with its `Call`.
Out:   one response.
From:  server (room 1).    Next: partitions, controller, groups.
"""
