"""lab — experiments: the demo, the faults, the labs, and what they share with the comparison of designs.

In:    a folder, a crowd, a fault.
Out:   what happened, and the verdict of `seckill report`.
Used by: cli, loadtest.designs, loadtest.benchmarks.    Uses: stack, the services, loadtest, report.
"""
