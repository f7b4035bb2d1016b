"""Room 14 · links — connections to other brokers.

In:    encoded requests.
Out:   encoded responses, or the reason why none will come.
Used by: raft, replication, controller.    Uses: wire, host.
"""
