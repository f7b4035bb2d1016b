"""Room 6 · disk — the floor: files, folders, and when they are durable.

In:    bytes to append, ranges to read, names to create, rename and remove.
Out:   bytes, and faults as `OSError`.
From:  log (room 5).    Next: the operating system, or its crash-able twin in memory.
"""
