"""Room 11 · groups — which consumers read which partitions, and how far they have read.

In:    joins, heartbeats, syncs, commits.
Out:   generations, assignments and offsets, kept in `__consumer_offsets`.
Used by: apis.    Uses: coordination, and partitions for the journal.
"""
