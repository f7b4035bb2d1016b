"""Room 8 · raft — the metadata quorum: which voter leads, and which records of the metadata log are committed.

In:    requests and answers of the other voters, changes of the own log, time.
Out:   what to persist, what to append or cut, what to send (`Ready`).
Used by: nothing yet.    Uses: log, disk, wire.
"""
