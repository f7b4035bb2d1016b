"""Room 4 · partitions — the leader's copy of each partition that this broker holds.

In:       batches to append, reads, new leader epochs, finished syncs.
Out:      offsets, batches, refusals, commit outcomes for waiting requests.
Used by:  apis (room 3), replication, coordination, controller, groups.
Uses:     log (room 5), disk (room 6), wire (room 2).

`isr`, `leader` and `follower` are the machines of a replicated partition. `Partition` does not use them yet.
"""
