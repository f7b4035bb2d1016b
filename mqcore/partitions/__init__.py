"""Room 4 · partitions — this broker's copy of each partition that it has, as the leader or as a follower.

In:       batches to append, reads, fetches of followers, roles that the metadata give, finished syncs.
Out:      offsets, batches, refusals, commit outcomes for waiting requests, proposals for the ISR.
Used by:  apis (room 3), replication, coordination, controller, groups.
Uses:     log (room 5), disk (room 6), wire (room 2).

The machines `leader.py`, `isr.py` and `follower.py` decide. `local_copy.py` has the log and the requests that wait for
it, `replica.py` the role and the commit, `partition.py` what requests do.
"""
