"""Room 11 · groups — who reads what, and how far they have read.

In:    joins, heartbeats, syncs, commits.
Out:   generations, assignments, offsets; kept in `__consumer_offsets`.
From:  apis (room 3).    Next: coordination (room 9).
"""
