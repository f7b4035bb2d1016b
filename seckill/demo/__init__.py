"""demo — the whole story in three minutes: a stack, a sale, a crowd, a fault in the middle, the books.

In:    nothing but this machine.
Out:   what happens while it happens; one HTML page; a verdict.
From:  cli.    Next: the programs themselves, by their commands (seckill up, loadtest.rush, seckill report).
"""
