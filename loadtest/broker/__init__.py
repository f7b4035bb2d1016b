"""The broker's benchmark: mqcore beside Apache Kafka and Redis Streams, in one run, by the same clients.

    python -m loadtest.broker --help

* `peers` starts the three, `rows` is the table of what is measured, `jobs/` are the load generators, each run in a
  process of its own; `measuring` interleaves them and reads what they cost; `report` and `picture` show it.
* A figure is a ratio within one run. What the machine or its neighbours do meets all peers alike.
"""
