"""Decision: which requests stay on the gateway's loop (seckill/serving.py): those that ask nobody but the clerk."""

from __future__ import annotations

import re

from gateway import sales

PURCHASES = re.compile(r"/api/v1/sales/[0-9]+/purchases")
SALES = re.compile(r"/api/v1/sales(/[0-9]+)?")


def stays(method: str, path: str) -> bool:
    """A purchase waits for the clerk; sales are read from memory, as long as they are kept there."""
    return bool(PURCHASES.fullmatch(path) or (SALES.fullmatch(path) and sales.are_kept()))
