"""Shell: what all connections of a broker share."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.apis.services import Services
from mqcore.server.connection_limits import ConnectionLimits
from mqcore.server.served_apis import ServedApis, served_apis
from mqcore.server.turns import LoopTurns


class ServerContext(NamedTuple):
    services: Services
    apis: ServedApis
    limits: ConnectionLimits
    turns: LoopTurns

    @classmethod
    def of(cls, services: Services) -> ServerContext:
        limits = ConnectionLimits(services.config, services.metrics, services.clock)
        turns = LoopTurns(services.clock, then=limits.limit_unsent)
        return cls(services, served_apis(services.metrics), limits, turns)
