"""loadtest — load from outside: simulated buyers, a payment provider and message sinks, comparisons, benchmarks.

In:    the address of a gateway; a sale.
Out:   requests, and a log of every response for `seckill report`.
Used by: lab, tests; the stack runs `loadtest.sandbox` by its command. No service imports this package.
"""
