"""Table: what the controller's listener serves: requests of other nodes. A cluster of one does not import it."""

from __future__ import annotations

from types import ModuleType

from mqcore.apis import (
    allocate_producer_ids,
    alter_partition,
    api_versions,
    broker_heartbeat,
    broker_registration,
    envelope,
)
from mqcore.apis.table import ApiTable, entry_of

CONTROLLER_MODULES: tuple[ModuleType, ...] = (
    api_versions,
    alter_partition,
    envelope,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
)

CONTROLLER_TABLE: ApiTable = {module.API.key: entry_of(module) for module in CONTROLLER_MODULES}
