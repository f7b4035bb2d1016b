"""Codec: the types of decoded requests, one module per API, generated from Kafka's schemas.

`schemas` uses these classes to build decoded requests, so a handler that is annotated with one is checked against the
names and types that it really receives. `python -m mqcore.wire.requests.generate` writes the modules; a test finds a
stale one.
"""
