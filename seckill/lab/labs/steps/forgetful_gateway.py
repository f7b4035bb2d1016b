"""Shell: the gateway, composed with a request id that is new for each call."""

from __future__ import annotations

from gateway.app import application  # first, because it sets Django up

# isort: split
from gateway import purchase
from seckill.lab.labs.steps.double_click import new_request_id

purchase.derive_request_id = new_request_id  # type: ignore[attr-defined]  # purchase imports it for itself

__all__ = ["application"]
