"""rush — the plain crowd: one process with one event loop, which the demo, the faults and the tests use.

In:    the address of the gateway, a sale, the buyers' number and behaviour (loadtest/buyers.py).
Out:   a JSON-lines log, and an entry in the manifest: evidence for `seckill report`.
"""
