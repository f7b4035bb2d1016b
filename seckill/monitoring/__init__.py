"""Logs, metrics and trace context of every process.

In:    log events, samples, events with a cause.
Out:   lines on stderr, pages for Prometheus, traceparent headers.
Used by: all packages above.    Uses: config.
"""
