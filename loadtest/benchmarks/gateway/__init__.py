"""gateway — what a purchase costs the gateway, and what its buyers feel.

In:    nothing; it starts Postgres, Redis, mqcore, the gateway and the views beside it.
Out:   a page and JSON: purchases per second beside a bare Django view and beside another commit's gateway, the CPU of
       each step, latencies while buyers poll, the cost of event streams, memory while the broker does not answer.

Each part is a module (throughput, mixed, streams, memory) with a load generator that runs as a process of its own.
"""
