"""stats — how fast Spark counts the topics, compared with the same events in Parquet, at several sizes."""
