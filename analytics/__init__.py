"""ROOM 4b · analytics — statistics of the sale, read from its topics by Spark.

In:    purchase.requests, inventory.decisions, order.events; Spark keeps their offsets in its checkpoint.
Out:   tables of counts in Postgres, facts in Parquet, one page of pictures.
From:  gateway, inventory, orders (rooms 1–3).    Next: whoever wants to know how it went.

Nobody waits for this room: switched off, the sale does not notice; switched on again, it catches up.
"""
