"""A `sitecustomize` module that records what a process makes durable, so that a test can cut off everything else."""
