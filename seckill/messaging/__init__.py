"""Consuming and publishing messages, exactly once in effect. Lies below the services.

In:    records of topics; events of a service, inside its own transaction.
Out:   calls of handlers; records in topics.
Used by: the services, cli, stack.    Uses: audit, config, monitoring.
How:   offsets and outbox rows are written in the same transaction as the changes they belong to.
"""
