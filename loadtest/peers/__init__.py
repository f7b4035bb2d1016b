"""peers — other designs of the same purchase, behind the same contract, under the same crowd and the same report.

In:    requests, over HTTP or from the topic; the tables of inventory.
Out:   decisions, holds, ledger entries and events, as each design makes them; what each of them breaks.
From:  `python -m loadtest.peers`, `seckill demo --unsafe`.    Next: the services, which do not know the difference.

They are programs of their own. The product has no switch that turns its guards off.
"""
