"""sandbox — the outside world: a payment provider and message sinks, with their own storage and logs.

In:    HTTP requests of the services; `/control`, which makes the sandbox misbehave.
Out:   signed callbacks; logs that the report compares with the services' tables.
Used by: stack and tests, by its command.    Uses: only seckill.config.public_bind, because it is a witness.
"""
