"""benchmarks — each compares this project with another design or with a limit of the machine, in the same run."""
