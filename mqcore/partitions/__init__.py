"""Room 4 · partitions — one copy of one partition, leading or following.

In:    batches to append, fetches to serve, leadership changes.
Out:   offsets, batches, high watermarks.
From:  apis (room 3), groups, controller.    Next: log (room 5).
"""
