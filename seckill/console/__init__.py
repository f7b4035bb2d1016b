"""The operators' console: one page that shows whether the peak is being absorbed and whether the books balance now.

In:    an operator's browser; broker, database, Redis and the stack's socket, read a few times a second.
Out:   charts and tables; operators' commands, each recorded in the audit trail.
Used by: operators.    Uses: inventory.sale_commands, orders.refunds, messaging.dead_letters, report, stack.
"""
