"""api — what the HTTP interface is, written down: an OpenAPI 3.1 document by hand, and a page that shows it.

A test follows it both ways: every route and every problem of the code is in it, and it promises nothing else.
"""
