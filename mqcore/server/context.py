"""Shell: what all connections of a listener share, and most of it all connections of the broker."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.apis.services import Services
from mqcore.apis.table import TABLE
from mqcore.server.connection_limits import ConnectionLimits
from mqcore.server.served_apis import ServedApis, served_apis
from mqcore.server.turns import LoopTurns

FIRST_FRAME_BYTES_MAX = 1024 * 1024


class ServerContext(NamedTuple):
    services: Services
    apis: ServedApis
    limits: ConnectionLimits
    turns: LoopTurns
    first_frame_bytes_max: int = FIRST_FRAME_BYTES_MAX

    @classmethod
    def of(cls, services: Services) -> ServerContext:
        limits = ConnectionLimits(services.config, services.metrics, services.clock)
        turns = LoopTurns(services.clock, then=limits.limit_unsent)
        return cls(services, served_apis(services.metrics, TABLE), limits, turns)

    def of_controller(self) -> ServerContext:
        """For the controller's listener: other requests and the same limits, but a large request may be the first one,
        because a broker may have forwarded it."""
        from mqcore.apis.controller_table import CONTROLLER_TABLE

        apis = served_apis(self.services.metrics, CONTROLLER_TABLE)
        return self._replace(apis=apis, first_frame_bytes_max=self.services.config.socket_request_max_bytes)
