"""console — one page for whoever runs the sale: is the peak being absorbed, and do the books balance now?

In:    an operator's browser; broker, database, Redis and the stack's socket, looked at a few times a second.
Out:   pictures and tables; operators' verbs, spoken to the services and written into the audit trail.
From:  a person.    Next: the services' own verbs (inventory.operating, orders.refunding, streams.letters, stack).
"""
