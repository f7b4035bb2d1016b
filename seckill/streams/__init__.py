"""Below the services: how messages are consumed and published, exactly once in effect.

In:    records of topics; events of a service, inside its own transaction.
Out:   calls of handlers; records in topics.
Rests on: the offsets and the outbox are rows in the transaction of what they belong to.
"""
