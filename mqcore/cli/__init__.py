"""The commands that run beside a broker: a cluster on one machine, and questions to brokers that run.

In:    the arguments that `mqcore/__main__.py` has parsed.
Out:   lines on the terminal, and an exit code.
Used by: __main__.    Uses: wire, host. `mqcore serve` imports nothing of it.
"""
