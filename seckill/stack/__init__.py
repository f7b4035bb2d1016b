"""Everything on one machine, without Docker: start in order, wait until healthy, show, stop in order.

In:    `seckill up` and the words that act on a running stack.
Out:   processes; one data folder.
Above the services: it knows all of them by their commands, and imports none.
"""
