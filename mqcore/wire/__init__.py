"""Room 2 · wire — bytes ↔ values, and nothing else.

In:    frames, batches.
Out:   values, and `BadFrame` for what is none.
From:  everywhere; imports nothing of the broker but `identity`.
"""
