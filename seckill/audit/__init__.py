"""The audit trail: who changed what by hand, and with which result.

In:    every operator's command, wrapped in `trail.audited`.
Out:   rows that are only ever added; `seckill audit` lists them.
Used by: every package with commands for operators.    Uses: Django.
"""
