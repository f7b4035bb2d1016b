"""Room 2 · wire: converts between bytes and values.

In:      frames and batches, or values to encode.
Out:     values, or `BadFrame` and `BadBatch` for malformed bytes.
Used by: all rooms.    Uses: identity.
"""
