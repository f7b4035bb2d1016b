"""designs — other designs of the same purchase, behind the same API, under the same crowd, judged by the same report.

In:    requests over HTTP or from the topic; inventory's tables.
Out:   decisions, holds, ledger entries and events as each design writes them; a table of what breaks in which design.
Used by: `python -m loadtest.designs`, `seckill demo --unsafe`.    Uses: lab, the services' tables and events.

They are programs of their own, so the product needs no switch that turns its safeguards off.
"""
