"""Room 6 · disk — files, folders, and when they are durable.

In:       bytes to append, ranges to read, names to create, rename and remove.
Out:      bytes, and faults as `OSError`.
Used by:  log (room 5), partitions (room 4), host.    Uses: the operating system, or the simulated disk in `memory`.
"""
