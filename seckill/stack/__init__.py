"""stack — everything on one machine, without Docker: start in order, wait until healthy, show, stop in order.

In:    a folder, ports, settings; words that act on a running stack.
Out:   processes that answer, and end when they are told to.
From:  cli, demo, tests.    Next: the programs themselves, by their commands; it imports no service.
"""
