"""Shell: what all connections of a listener share, and most of it all connections of the broker."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.apis.services import Services
from mqcore.apis.table import TABLE
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
        return cls(services, served_apis(services.metrics, TABLE), limits, turns)

    def of_controller(self) -> ServerContext:
        """For the controller's listener: other requests, the same limits."""
        from mqcore.apis.controller_table import CONTROLLER_TABLE

        return self._replace(apis=served_apis(self.services.metrics, CONTROLLER_TABLE))
