"""stack — the whole system on one machine, without Docker: start in order, supervise, stop in reverse order.

In:    a data folder, ports, settings; commands to a running stack.
Out:   healthy processes, an open sale, addresses.
Used by: cli, console (commands), lab, loadtest and tests, which start every server and stack through this package.
Uses: the programs by their command lines; only `first_run` imports a service.
"""
