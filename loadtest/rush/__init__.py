"""A first crowd: buyers on one event loop, and a log of all they did and saw, closed by a count and a sum.

In:    the address of the gateway, a sale, a number of buyers.
Out:   a JSON-lines log and a manifest of the run: evidence for `seckill report`.
"""
