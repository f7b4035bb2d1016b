"""Logs, metrics, trace context and spans of every process.

In:    log events, samples, events with a cause, batches and calls.
Out:   lines on stderr, pages for Prometheus, traceparent headers, spans over OTLP if an endpoint is set.
Used by: all packages above.    Uses: config.
"""
