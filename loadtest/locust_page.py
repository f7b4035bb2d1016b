"""What Locust's page proposes: the stack of the evidence folder as its target, its running sale, and a modest crowd.

Locust asks for the options each time its page is opened, so the proposed sale is the one that runs at that moment.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.buyers import API
from seckill.web.running_sale import importance

log = logging.getLogger(__name__)

DEFAULT_HOST = "http://127.0.0.1:8000"
USERS, USERS_PER_SECOND = 200, 40
PATIENCE_S = 5.0


class Proposal(NamedTuple):
    """`sale` is 0 if there is none yet; the number then means "the running one at the start"."""

    sale: int
    text: str


def host_of_stack(evidence: Path) -> str:
    """The gateway of the stack that owns this evidence folder, or the usual address."""
    try:
        addresses = json.loads((evidence.parent / "run" / "environment.json").read_text())
        return str(addresses["SECKILL_PUBLIC_URL"])
    except (OSError, ValueError, KeyError, TypeError):
        return DEFAULT_HOST


def propose_sale(host: str) -> Proposal:
    try:
        sale = running_sale(host)
    except (OSError, ValueError, KeyError) as fault:
        log.warning("no sale is preselected: %s does not list its sales: %s", host, fault)
        return Proposal(0, f"number of the sale; {host} does not answer at the moment")
    if sale is None:
        return Proposal(0, "number of the sale; there is none yet: seckill sale create …")
    name = f"{sale['id']} is {sale['name']} ({sale['sku']}), {sale['state']}"
    return Proposal(int(sale["id"]), f"number of the sale; 0 means the running one. {name}")


def running_sale(host: str) -> dict[str, Any] | None:
    """The sale that runs, else the next one, as the API describes it."""
    with urllib.request.urlopen(f"{host.rstrip('/')}{API}/sales", timeout=PATIENCE_S) as response:
        sales: list[dict[str, Any]] = json.load(response)["sales"]
    now_ms = time.time_ns() // 1_000_000
    return min(
        sales,
        key=lambda sale: importance(sale["id"], sale["state"], sale["opens_at_ms"], sale["closes_at_ms"], now_ms),
        default=None,
    )
