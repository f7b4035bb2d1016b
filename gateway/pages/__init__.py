"""The shop: the pages of a buyer, with and without scripts.

In:    a browser's requests.
Out:   pages; purchase requests into the same queue as the API's.
Used by: buyers.    Uses: purchase, purchase_status, sales.
"""
