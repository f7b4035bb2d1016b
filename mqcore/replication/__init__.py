"""Room 7 · replication — what brokers say to each other so that a partition has several copies.

In:       fetches of followers, answers of leaders, proposals for another ISR and the controller's answers.
Out:      batches for followers, fetches to leaders, requests to the controller, which replica is the nearest.
Used by:  apis (room 3), broker.    Uses: partitions (room 4), links (room 14).
"""
