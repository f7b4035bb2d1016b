"""jobs — the load generators, each in its own process: `python -m loadtest.benchmarks.broker.jobs NAME JSON`.

A job is a function `Spec -> Result`. It prints its result as one line of JSON with the CPU that it used itself
(`client_cores`), so that the report recognises rows that the generator limits.
"""
