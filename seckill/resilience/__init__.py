"""Calls to other servers: HTTP and Redis clients with deadlines, a circuit breaker, a shared value, task hints.

In:    calls of the services.
Out:   results, or an exception within the deadline.
Used by: the services, web, messaging.    Uses: nothing of the project.
"""
