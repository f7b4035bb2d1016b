"""The operators' console: one page that shows whether the peak is being absorbed and whether the books balance now; and
the front page, from which a rush, a fault and a report are started.

In:    an operator's browser; broker, database, Redis and the stack's socket, read a few times a second.
Out:   charts and tables; operators' commands, each recorded in the audit trail; rushes that Locust runs.
Used by: operators.    Uses: inventory.sale_commands, orders.refunds, messaging.dead_letters, report, stack.
"""
