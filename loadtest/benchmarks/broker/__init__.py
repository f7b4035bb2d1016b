"""broker — mqcore compared with Apache Kafka and Redis Streams, in one run with the same clients.

    python -m loadtest.benchmarks.broker --help

* `peers` starts the three brokers, `rows` is the table of measurements, `jobs/` has the load generators, which run in
  their own processes. `measurement` interleaves them and reads their CPU; `report` and `picture` show the result.
* A figure is a ratio within one run, so other load on the machine affects all brokers alike.
"""
