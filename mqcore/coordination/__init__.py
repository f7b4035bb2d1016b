"""Room 9 · coordination — the one loop of everything replicated: decide → append → apply → answer.

In:    commands.
Out:   answers, given when the facts they rest on are committed.
From:  apis (room 3).    Next: a machine (controller, groups), a journal (partitions, log).
"""
