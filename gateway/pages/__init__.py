"""The shop: the pages a buyer sees, in words, with and without scripts.

In:    a browser's requests, and what the gateway's verbs answer.
Out:   pages; the same requests into the queue as the API's.
From:  the crowd.    Next: the verbs of the gateway (buying, following).
"""
