"""The HTTP API, described: an OpenAPI 3.1 document written by hand, and a page that shows it.

In:    nothing; the document is data.
Out:   /api/openapi.json, /api/docs, /problems/.
Used by: clients.    Uses: seckill.web. A test compares the document with the routes and problems of the code.
"""
