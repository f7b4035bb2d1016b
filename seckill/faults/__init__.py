"""faults — break a running sale in every way we could think of, and ask the books afterwards.

In:    a table of cases (cases/): what is broken, what proves that it was, what the report must then say.
Out:   a table, JSON and a page: what really happened, how long the recovery took, whether it behaved as marked.
Next:  running → world (a stack of its own, a crowd) → the case → drain → seckill.consistency.

Witnesses are spared: the crowd, the payment provider and the sinks. Their logs are what the report believes.
"""
