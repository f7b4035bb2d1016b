"""faults — break a running sale in many ways, and check the books afterwards with `seckill report`.

In:    a table of cases (cases/): what is broken, what proves that it happened, what the report must say.
Out:   a table, JSON and a page: what happened, how long the recovery took, whether the result was as expected.
Used by: cli.    Uses: lab (stack, database, evidence), the crowd in loadtest, report.

runner → fault_run (the stack, the buyers, the findings) → a case → settling → seckill.report. No case breaks a witness:
the crowd, the payment provider and the message sinks write the logs that the report believes.
"""
