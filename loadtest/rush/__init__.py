"""The plain crowd: one process, one event loop, nothing to install; what the demo, the faults and the tests use.

In:    the address of the gateway, a sale, who comes and when (loadtest/buyers.py says what they do).
Out:   a JSON-lines log and a manifest of the run: evidence for `seckill report`.
"""
