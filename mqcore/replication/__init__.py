"""Room 7 · replication — what brokers say to each other so that a partition has several copies.

In:       proposals of leaders for another ISR, and the controller's answers.
Out:      requests to the controller, outcomes of proposals.
Used by:  nothing yet but tests/simulation/replication.    Uses: partitions (room 4).
"""
