"""Which consumer groups, sweeps, relays and metrics pages a stack runs, and the dotted names of their code.

The names are strings because messaging lies below the services and must not import them.
"""

from __future__ import annotations

import importlib
from typing import Any

GROUPS = {
    "inventory": "inventory.handlers:PurchaseRequestHandler",
    "inventory.settlement": "inventory.handlers:SettlementHandler",
    "orders": "orders.handlers:DecisionHandler",
    "gateway.outcomes": "gateway.handlers:Outcomes",
    "notify.sms": "notifications.handlers:sms_handler",
    "notify.email": "notifications.handlers:email_handler",
    "notify.push": "notifications.handlers:push_handler",
}
SWEEPS = {
    "inventory": "inventory.sweep:create_sweeps",
    "orders": "orders.sweep:create_sweeps",
    "notifications": "notifications.sweep:create_sweeps",
}
METRICS = {
    "inventory": "inventory.metrics:REGISTRY",
    "orders": "orders.metrics:REGISTRY",
    "notifications": "notifications.metrics:REGISTRY",
}
RELAYS = {"inventory": ("inventory",), "orders": ("orders", "letters")}
"""The outbox writers that each relay publishes. Every writer has exactly one relay, so its events keep their order. The
relay of orders also publishes the dead letters of all groups (the writer `letters`)."""


def load_object(path: str) -> Any:
    """The object that "package.module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def create_handler(group: str) -> Any:
    return load_object(GROUPS[group])()
