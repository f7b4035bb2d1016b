"""Room 9 · coordination — the one loop behind all replicated state: decide → append → apply → answer.

In:    commands.
Out:   answers, given when the facts they rest on are committed.
Used by: controller, groups.    Uses: partitions (for the journal).
"""
