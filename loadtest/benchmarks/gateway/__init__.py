"""gateway — what the admission of a purchase costs: accepted purchases per second beside a bare Django view.

In:    nothing; it starts Postgres, Redis, mqcore, the gateway and the bare views itself.
Out:   a table of ratios, and the CPU time of each step.
"""
