"""Room 10 · controller — the state of the cluster: topics, partitions, settings, brokers.

In:    commands, such as creating a topic, registering a broker or proposing in-sync replicas.
Out:   metadata records in `__cluster_metadata`, and the image of the cluster that they make.
Used by: apis, broker.    Uses: coordination, and partitions for the journal.
"""
