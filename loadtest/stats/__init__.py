"""The benchmark of the statistics: the topics against the same facts in Parquet, small against ten times as large."""
