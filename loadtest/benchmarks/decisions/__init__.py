"""decisions — how many purchases per second inventory decides, compared with a row lock in the request.

In:    nothing; it starts its own servers in a temporary folder.
Out:   a table, JSON and a Markdown page.
"""
