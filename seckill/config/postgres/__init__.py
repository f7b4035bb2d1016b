"""Django's Postgres backend, with one addition: a session that turns out to be read-only is closed.

In:    Django's settings of the database.
Out:   connections to a server that accepts writes.
Used by: Django, through ENGINE in seckill/config/database.py.    Uses: Django's own backend.
"""
