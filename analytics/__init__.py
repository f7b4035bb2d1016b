"""ROOM 4b · analytics: statistics of the sale, computed by Spark from the topics.

In:    purchase.requests, inventory.decisions, order.events; Spark keeps their offsets in its checkpoint.
Out:   tables of counts in Postgres, facts in Parquet, one page of charts.
From:  gateway, inventory, orders (rooms 1–3).    Next: the statistics page and the consistency report (I22).

No other room depends on this one: if it is switched off, the sale goes on, and it catches up later.
"""
