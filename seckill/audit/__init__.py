"""Below the services: who did what to the sale by hand, and what came of it.

In:    every operator's verb, wherever it is spoken (`trail.acting`).
Out:   rows that are only ever added; `seckill audit` lists them.
"""
