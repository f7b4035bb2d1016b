"""ROOM 1 · gateway — admits buyers, queues their requests, shows them what became of these.

In:    HTTP; decisions and order events.
Out:   purchase.requests; the outcomes a buyer sees.
From:  the crowd.    Next: inventory (room 2).
"""
