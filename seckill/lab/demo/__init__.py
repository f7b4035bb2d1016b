"""demo — the whole story in three minutes: a stack, a sale, a crowd, a fault in the middle, the report.

In:    nothing but this machine.
Out:   progress on the terminal, one HTML page, a verdict.
Used by: cli.    Uses: the programs by their commands (seckill up, loadtest.rush, seckill report).
"""
