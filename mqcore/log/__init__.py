"""Room 5 · log — one partition as segments on disk.

In:    batches that already carry their offsets and leader epoch.
Out:   ranges of segment files, offsets by time, the end of an epoch.
From:  partitions (room 4), controller.    Next: disk (room 6).
"""
