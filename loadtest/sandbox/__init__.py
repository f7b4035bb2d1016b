"""The outside world: a payment provider and notification sinks, with storage and logs of their own.

They are witnesses: what they have seen is compared with what the services believe. They import nothing of ours but the
rule where a server may listen (seckill/binding.py).
"""
