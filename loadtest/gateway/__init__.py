"""gateway — what the admission of a purchase costs: accepted purchases beside a bare Django view on the same server.

In:    nothing: it starts Postgres, Redis, mqcore, the gateway and the bare view itself.
Out:   a table of ratios, and the CPU of each step.
"""
