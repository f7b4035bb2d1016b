"""Decision: which requests stay on the gateway's loop (gateway/serving.py): those that ask nobody but the clerk."""

from __future__ import annotations

import re

from gateway import sales

PURCHASES = re.compile(r"/api/v1/sales/[0-9]+/purchases")
SALES = re.compile(r"/api/v1/sales(/[0-9]+)?")


def stays(method: str, path: str) -> bool:
    """A purchase waits for the clerk; sales are read from memory, as long as they are kept there. Only being alive is
    said without a thread: it has to be true while all threads wait."""
    if method == "POST":
        return bool(PURCHASES.fullmatch(path))
    return path == "/livez" or bool(SALES.fullmatch(path) and sales.is_fresh())
