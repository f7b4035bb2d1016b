"""The figures of the decision: how many purchases a second inventory decides, beside a row lock in the request.

In:    nothing: it starts servers of its own, in a folder that is thrown away.
Out:   a table, JSON and a page of Markdown.
"""
