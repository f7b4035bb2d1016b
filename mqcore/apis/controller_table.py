"""Table: what the controller's listener serves: requests of other nodes. A cluster of one does not import it."""

from __future__ import annotations

from types import ModuleType

from mqcore.apis import (
    allocate_producer_ids,
    alter_partition,
    api_versions,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    end_quorum_epoch,
    envelope,
    fetch_snapshot,
    quorum_fetch,
    vote,
)
from mqcore.apis.table import ApiTable, entry_of

CONTROLLER_MODULES: tuple[ModuleType, ...] = (
    quorum_fetch,
    api_versions,
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    alter_partition,
    envelope,
    fetch_snapshot,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
)

CONTROLLER_TABLE: ApiTable = {module.API.key: entry_of(module) for module in CONTROLLER_MODULES}
