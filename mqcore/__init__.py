"""mqcore — a message broker that speaks the Apache Kafka protocol, written to be read.

A record passes the rooms in this order, without turning back:

    server (1) → wire (2) → apis (3) → partitions (4) → log (5) → disk (6)

Entered from the side, by another kind of traffic:

    coordination (9): the one loop, decide → append → apply → answer
    controller (10): what the cluster is        groups (11): who reads what
"""
