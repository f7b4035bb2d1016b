"""What a simulated world is made of. A seeded bug replaces one of the parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from mqcore.replication.altering import AlterPartitions
from tests.simulation.replication.controller import ControllerModel
from tests.simulation.replication.replica import Parts, Replica


@dataclass(frozen=True)
class Setup:
    """None: the seed decides."""

    parts: Parts = field(default_factory=Parts)
    altering: type[AlterPartitions] = AlterPartitions
    replica: type[Replica] = Replica
    controller: type[ControllerModel] = ControllerModel
    durable_only: bool | None = None  # flush.messages=1
    min_isr: int | None = None
    partitions: int | None = None
