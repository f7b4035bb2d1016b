"""Room 10 · controller — the state of the cluster: topics, partitions, settings, brokers.

In:    commands, such as creating a topic or changing a setting.
Out:   metadata records in `__cluster_metadata`, and the image of the cluster that they make.
Used by: apis, broker.    Uses: coordination, and partitions for the journal.
"""
