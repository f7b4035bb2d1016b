"""mqcore — a message broker that speaks the Apache Kafka protocol, written to be read.

A record passes through the rooms in this order:

    server (1) → wire (2) → apis (3) → partitions (4) → log (5) → disk (6)

Other requests use these rooms:

    coordination (9): the loop behind all replicated state, decide → append → apply → answer
    controller (10): topics, partitions, settings     groups (11): consumers and their offsets
"""
