"""The real `Services` with only the parts that a test needs."""

from __future__ import annotations

from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from mqcore.apis.services import Services
from mqcore.config import BrokerConfig
from mqcore.host import SystemChance, SystemNetwork
from mqcore.metrics import Metrics
from tests.unit.mqcore.coordination.virtual import VirtualClock


class MissingPart:
    """Fails when it is used, and names itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise AssertionError(f"this test gave no {self._name}, but {self._name}.{attribute} was used")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"this test gave no {self._name}, but it was called")


def services_with(config: BrokerConfig | None = None, **parts: Any) -> Services:
    """`parts` are named like the fields of `Services`; a name that it lacks is a TypeError."""
    required = [field.name for field in fields(Services) if field.default is field.default_factory is MISSING]
    given: dict[str, Any] = {
        **{name: MissingPart(name) for name in required},
        "cluster_id": "test-cluster",
        "directory_id": UUID(int=99),
        "clock": VirtualClock(),
        "network": SystemNetwork(),
        "chance": SystemChance(),
        "metrics": Metrics(),
        "config": config or BrokerConfig(),
        "quorum": SimpleNamespace(leader=None),
        **parts,
    }
    return Services(**given)
