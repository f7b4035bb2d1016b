"""Room 10 · controller — what the cluster is: topics, partitions, configurations, brokers.

In:    commands (create this topic, change that setting).
Out:   metadata records in `__cluster_metadata`, and the image they make.
From:  apis (room 3).    Next: coordination (room 9).
"""
