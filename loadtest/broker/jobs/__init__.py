"""The load generators. Each job runs in a process of its own: `python -m loadtest.broker.jobs NAME JSON`.

A job is a function `Spec -> Result`. It prints its result as one line of JSON and says in `client_cores` how much CPU
it needed itself, so that a row limited by its generator is recognised as such.
"""
