"""Codec: what buyers were told, according to the crowd's log, and which of it the books contradict."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seckill.web.purchase_states import REFUSED, PurchaseState

GRANTED = frozenset({PurchaseState.RESERVED, PurchaseState.AWAITING_PAYMENT, PurchaseState.PAID})


@dataclass(slots=True)
class ClientView:
    """The sale as its buyers saw it."""

    first_ms: int = 0  # the first attempt
    cut: int = 0  # attempts without a response, so the buyer does not know their outcome
    latencies_ms: list[int] = field(default_factory=list)  # of attempts answered with 202
    accepted_at_ms: dict[str, int] = field(default_factory=dict)  # by request
    states: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # shown for each request


def read_client_view(log: Path) -> ClientView:
    view = ClientView()
    for line in log.read_text().splitlines():
        record = json.loads(line)
        if record["what"] == "purchase":
            view.first_ms = view.first_ms or record["at_ms"]
            view.cut += record["status"] == 0
            if record["status"] == 202:
                view.latencies_ms.append(record["took_ms"])
                view.accepted_at_ms.setdefault(record["request_id"], record["at_ms"] + record["took_ms"])
        elif record["what"] == "poll" and record.get("state"):
            view.states[record["request_id"]].add(record["state"])
    return view


def wrong_answers(view: ClientView, decisions: Mapping[str, str], holds: Mapping[str, set[str]]) -> dict[str, str]:
    """Requests with a wrong answer, and what was wrong. `holds`: the states of each request's units."""
    wrong = {}
    for request, states in view.states.items():
        refusals = states & REFUSED
        if states & GRANTED and request not in holds:
            wrong[request] = "was promised a unit that the books do not have"
        elif PurchaseState.PAID in states and "sold" not in holds[request]:
            wrong[request] = "was told that it is paid, but the unit is not sold"
        elif states & GRANTED and refusals:
            wrong[request] = "was both promised a unit and refused"
        elif refusals and decisions.get(request) not in refusals:
            wrong[request] = "was refused, but the books say otherwise"
    return wrong
