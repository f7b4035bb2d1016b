"""Room 1: the gateway. It admits buyers, queues their requests and shows them the outcome.

In:    HTTP; decisions and order events.
Out:   purchase.requests; the outcomes that buyers see.
Used by: buyers.    Uses: inventory's and orders' events, messaging, web.
"""
