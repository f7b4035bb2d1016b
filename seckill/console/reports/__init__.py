"""The reports that operators order from the console: a queue, the worker that makes them, and the pages that show them.

In:    a click on a page; then `seckill report` as a process of its own.
Out:   rows of `console_report`, which hold the finished pages, so every gateway shows them and no folder is shared.
Used by: the console's addresses, the front page, `seckill report serve`.    Uses: seckill.audit, seckill.messaging.
"""
