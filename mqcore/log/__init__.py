"""Room 5 · log — one partition as segment files on disk.

In:       batches that already carry their offsets and leader epoch.
Out:      ranges of segment files, offsets by time, the end of an epoch.
Used by:  partitions (room 4), coordination, and controller and apis for topic settings.
Uses:     disk (room 6), wire (room 2).
"""
