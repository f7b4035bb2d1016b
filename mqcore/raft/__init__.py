"""Room 8 · raft — the metadata quorum: which voter leads, and which records of the metadata log are committed.

In:    records of the controller, requests and answers of the other voters, time.
Out:   committed records, snapshots, requests to the other voters.
Used by: controller, apis.    Uses: partitions, links, log, disk, wire.
"""
